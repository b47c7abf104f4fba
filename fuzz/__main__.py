"""The runner: runs the campaigns that are named, prints what failed, and ends with a table.

python -m fuzz                                  every campaign, under 30 minutes on two cores
python -m fuzz files kernels --cases 500        some of them, with fewer cases
python -m fuzz files --seed 7 --case 812        one case again, with all that it says
"""

import argparse
import secrets
import signal
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fuzz.record import Record, TimeIsOver, table

CAMPAIGNS = ("files", "kernels", "texts", "crashes")
MINUTES = 30.0


def campaigns() -> list[str]:
    """The names of the campaigns that are there."""
    return [name for name in CAMPAIGNS if find_spec(f"fuzz.{name}") is not None]


def run_campaign(name: str, seed: int, cases: int | None, seconds: float) -> Record:
    """Run a campaign for at most some seconds; the record has its failures."""
    record, module = Record(name, seed), import_module(f"fuzz.{name}")
    signal.signal(signal.SIGALRM, _end_campaign)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds))
    try:
        record.cases = module.run(seed, cases, record)
    except TimeIsOver:
        print(f"{name}: its time is over after {record.cases:,} cases; give --minutes for more")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return record


def _end_campaign(*_: object) -> None:
    """Raise in the campaign that runs."""
    raise TimeIsOver


def _parse_arguments(arguments: list[str] | None) -> Any:
    """The campaigns and options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(CAMPAIGNS)}; all if none")
    parser.add_argument("--seed", type=int, help="repeat the campaign of this seed; else a new one")
    parser.add_argument("--cases", type=int, help="cases of each campaign; else its own number")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="for all; 30 if not said")
    parser.add_argument("--case", type=int, help="run this case of one campaign again")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in campaigns():
            parser.error(f"no campaign {name!r}; there are {', '.join(campaigns())}")
    if options.case is not None and (len(options.names) != 1 or options.seed is None):
        parser.error("--case needs the name of one campaign and its --seed")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run what the command line names; 1 if anything failed."""
    options = _parse_arguments(arguments)
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    if options.case is not None:
        print(import_module(f"fuzz.{options.names[0]}").reproduce(seed, options.case))
        return 0
    print(f"seed {seed}", flush=True)
    end, records = time.monotonic() + 60 * options.minutes, []
    for name in options.names or campaigns():
        begin = time.monotonic()
        records.append(run_campaign(name, seed, options.cases, end - begin))
        spent = (time.monotonic() - begin) / 60
        print(f"{name}: {records[-1].cases:,} cases in {spent:.1f} min", flush=True)
    print(table(records))
    return int(any(record.failures.total() for record in records))


if __name__ == "__main__":
    sys.exit(main())
