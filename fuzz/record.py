"""What a campaign tells the runner: failures, counted by kind, and how far it has come."""

import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from fuzz.children import FAILURES

__all__ = ["Record", "TimeIsOver", "table"]

_SHOWN_LINES = 6  # of a failure's detail, its last ones
_SECONDS_BETWEEN = 10.0  # two lines of progress


class TimeIsOver(BaseException):
    """Ends a campaign whose time is over; no campaign catches it by mistake."""


@dataclass
class Record:
    """The failures of one campaign; it is the `report` that the campaign calls.

    The name of a failure begins with its kind, one of FAILURES, and may say "case 812".
    """

    campaign: str
    seed: int
    cases: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    started: float = field(default_factory=time.monotonic)
    _printed: float = 0.0

    def __call__(self, name: str, detail: str) -> None:
        """Count and print a failure, with the command that repeats it."""
        self.failures[kind_of(name)] += 1
        lines = [line for line in detail.splitlines() if line.strip()][-_SHOWN_LINES:]
        print(f"FAILED {self.campaign}: {name}")
        print("".join(f"    {line[:300]}\n" for line in lines), end="")
        number = re.search(r"\bcase (\d+)", name)
        last = "" if number is None else f" --case {number[1]}"
        print(f"    repeat it: python -m fuzz {self.campaign} --seed {self.seed}{last}", flush=True)

    def progress(self, done: int, total: int) -> None:
        """Say how far the campaign has come and about how long the rest will take."""
        self.cases, now = done, time.monotonic()
        if now - self._printed < _SECONDS_BETWEEN:
            return
        self._printed = now
        left = (now - self.started) / max(done, 1) * (total - done) / 60
        failed = sum(self.failures.values())
        print(
            f"{self.campaign}: {done:,} of {total:,} cases, {failed} failed "
            f"(about {left:.1f} min left)",
            file=sys.stderr,
            flush=True,
        )


def kind_of(name: str) -> str:
    """The kind of failure that its name begins with; "other" if it is none of ours."""
    return next((kind for kind in FAILURES if name.startswith(kind)), "other")


def table(records: list[Record]) -> str:
    """The numbers of all campaigns, one line for each."""
    heads = ("campaign", "cases", *(f"{kind}s" if kind != "other" else kind for kind in FAILURES))
    rows = [
        (record.campaign, f"{record.cases:,}", *(str(record.failures[kind]) for kind in FAILURES))
        for record in records
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (heads, *rows)
    )
