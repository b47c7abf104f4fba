"""The runner: measures the tables that are named, prints them, and keeps them in RESULTS.md.

python -m bench                                 every table
python -m bench attention windows.growth        those of a module, or one alone
python -m bench --quick                         half of the sizes, a few rounds
python -m bench --list                          the names
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module

import torch

from bench.measure import Effort, Row, Table, cap_memory
from bench.results import keep, section

MODULES = (
    "attention",
    "windows",
    "additive",
    "imports",
    "kernels",
    "watching",
    "recurrent",
    "training",
    "generation",
    "pages",
    "diagnosis",
    "survey",
    "start",
    "knowledge",
    "tasks",
)


def tables() -> dict[str, Table]:
    """Every table by the name module.table; a module of MODULES gives its own as TABLES."""
    return {
        f"{module}.{name}": table
        for module in MODULES
        for name, table in import_module(f"bench.{module}").TABLES.items()
    }


def chosen(names: Sequence[str]) -> dict[str, Table]:
    """The tables of these names, whole modules among them; without names, all."""
    everything = tables()
    for name in names:
        if name not in everything and name not in MODULES:
            sys.exit(f"no table {name!r}; there are {', '.join(everything)}")
    if not names:
        return everything
    return {
        name: table
        for name, table in everything.items()
        if name in names or name.partition(".")[0] in names
    }


class Progress:
    """Says on stderr what was just measured and about how long the rest will take."""

    def __init__(self, work: dict[str, Table], effort: Effort) -> None:
        self.expected = {name: 60 * table.minutes for name, table in work.items()}
        self.pace = 0.3 if effort.quick else 1.0
        self.start, self.done = time.monotonic(), 0.0

    def follow(self, name: str, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows themselves, each said as it comes."""
        begin = time.monotonic()
        self._say(name, "begins")
        for row in rows:
            cells = " | ".join(cell for cell in row.cells() if cell)
            self._say(name, cells, time.monotonic() - begin)
            yield row
        self.done += self.expected.pop(name)
        self.pace = (time.monotonic() - self.start) / self.done

    def _say(self, name: str, what: str, spent: float = 0.0) -> None:
        ahead = self.pace * sum(self.expected.values())
        left = max(ahead - spent, ahead - self.pace * self.expected[name]) / 60
        print(f"{name}: {what} (about {left:.1f} min left)", file=sys.stderr, flush=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="tables or modules of tables; all if none")
    parser.add_argument("--quick", action="store_true", help="half of the sizes, a few rounds")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch; 2 if not said")
    parser.add_argument("--list", action="store_true", help="the names, and measure nothing")
    asked = parser.parse_args()
    work, effort = chosen(asked.names), Effort(asked.quick)
    if asked.list:
        print("\n".join(f"{name:24} {table.title}" for name, table in work.items()))
        return
    torch.set_num_threads(asked.threads)
    cap_memory()
    progress = Progress(work, effort)
    for name, table in work.items():
        rows = list(progress.follow(name, table.run(effort)))
        text = section(name, table, rows, effort)
        print(text, flush=True)
        keep(name, text)


if __name__ == "__main__":
    main()
