"""The runner: surveys model types of transformers, and prints verdicts and their table.

python -m bench.architectures                   every class, resumed where it ended
python -m bench.architectures bert t5 --again   the classes of some types, compared again
python -m bench.architectures --quick           the small list that the tests run
python -m bench.architectures --libraries       timm, torchvision, diffusers ..., if installed
python -m bench.architectures --table           the table of the rows that there are
"""

import argparse
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # random models only: nothing is fetched

import transformers

from bench.architectures.catalog import list_types
from bench.architectures.subset import QUICK
from bench.architectures.survey import (
    read_rows,
    run_survey,
    work_of_libraries,
    work_of_types,
)
from bench.architectures.table import describe_failures, summarise

OUTPUT = Path("build") / "architectures.jsonl"


def main() -> None:
    """Run what the command line asks for."""
    options = _parse_arguments()
    transformers.utils.logging.set_verbosity_error()
    types = options.types or (
        sorted({name for name, *_ in QUICK}) if options.quick else list_types()
    )
    unknown = sorted(set(types) - set(list_types()))
    if unknown:
        sys.exit(f"expected model types of transformers {transformers.__version__}, got {unknown}")
    start = time.monotonic()
    work = work_of_libraries() if options.libraries else work_of_types(types)
    if not options.table:
        survey = run_survey(work, options.output, workers=options.workers, again=options.again)
        for row in survey:
            print(f"{row['verdict']:18} {row['type']:32} {row['class']}", flush=True)
    rows = [row for row in read_rows(options.output) if (row["type"], row["class"]) in work]
    print(f"\ntransformers {transformers.__version__}\n\n{summarise(rows)}\n")
    print(describe_failures(rows))
    print(f"\n{(time.monotonic() - start) / 60:.1f} minutes", file=sys.stderr)


def _parse_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.architectures", description=__doc__.splitlines()[0]
    )
    parser.add_argument("types", nargs="*", help="model types of transformers; all if none")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"rows; {OUTPUT} if not said")
    parser.add_argument("--workers", type=int, default=2, help="child processes; 2 if not said")
    parser.add_argument("--again", action="store_true", help="also classes that have a row")
    parser.add_argument("--quick", action="store_true", help="the small list that the tests run")
    parser.add_argument("--libraries", action="store_true", help="models of other libraries")
    parser.add_argument("--table", action="store_true", help="the table, and survey nothing")
    return parser.parse_args()


if __name__ == "__main__":
    main()
