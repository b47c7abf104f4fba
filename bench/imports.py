"""What it costs to import the package: fresh processes in turns."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from bench.measure import OURS, Effort, Row, Table, Target, compare, time_rows

_TORCH = "import torch"
_OURS = ("import regard", "import regard; regard.attend")


def _run(statement: str) -> None:
    subprocess.run([sys.executable, "-c", statement], check=True)


def import_rows(effort: Effort) -> Iterator[Row]:
    """The time of a whole process that imports and ends."""
    for statement in _OURS:
        contenders = {OURS: partial(_run, statement), _TORCH: partial(_run, _TORCH)}
        timings = compare(contenders, 5 if effort.quick else 15, check=False)
        yield from time_rows(timings, f"`{statement}`", {_TORCH: Target(1.15)})


TABLES = {"fresh": Table("Importing in a fresh process", import_rows, 1.5)}
