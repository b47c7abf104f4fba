"""What it takes from the command line to the first picture: fresh processes in turns."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.measure import OURS, Effort, Row, Table, Target, compare, time_rows

_TORCH = "import torch"
_LOOK = ("look", "I love you")


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


def start_rows(effort: Effort) -> Iterator[Row]:
    """The time of a whole process: a picture in the terminal, a page, and a help page."""
    with tempfile.TemporaryDirectory() as folder:
        page = str(Path(folder) / "page.html")
        cases: dict[tuple[str, ...], Target | None] = {
            _LOOK: Target(3.0),
            (*_LOOK, "--out", page): Target(3.0),
            ("look", "--help"): None,
        }
        for command, target in cases.items():
            ours = partial(_run, "-m", "regard", *command)
            contenders = {OURS: ours, _TORCH: partial(_run, "-c", _TORCH)}
            timings = compare(contenders, 5 if effort.quick else 15, check=False)
            words = " ".join(f'"{word}"' if " " in word else word for word in command)
            case = f"`regard {words.replace(page, 'page.html')}`"
            yield from time_rows(timings, case, {_TORCH: target})


TABLES = {"picture": Table("From the command line to the first picture", start_rows, 3.0)}
