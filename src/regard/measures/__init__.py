"""From traces to numbers: pure, nothing is run."""

from regard.measures.alignment import (
    Agreement,
    Gold,
    agreement,
    grown,
    likeliest,
    merged,
    mutual,
    read_gold,
    strong,
)

__all__ = [
    "Agreement",
    "Gold",
    "agreement",
    "grown",
    "likeliest",
    "merged",
    "mutual",
    "read_gold",
    "strong",
]
