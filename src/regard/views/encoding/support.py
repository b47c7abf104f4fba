"""Which cells of a map can have weight: every one, those up to the diagonal, or a run per row."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

EVERY, CAUSAL, RUNS = 0, 1, 2
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Support:
    """Each row's run of columns that may have weight; whatever lies outside is zero."""

    kind: int
    starts: Places
    stops: Places
    columns: int
    offset: int = 0

    @classmethod
    def of(cls, weights: NDArray[np.float32]) -> "Support":
        """The support of a map: the simplest form, unless a tighter one saves many cells."""
        rows, columns = weights.shape
        if weights.min() > 0:  # true of most maps that are not causal
            return cls.every(rows, columns)
        positive = weights > 0
        starts = positive.argmax(1)
        stops = np.where(positive.any(1), columns - positive[:, ::-1].argmax(1), starts)
        runs = cls(RUNS, starts, stops, columns)
        causal = cls.causal(rows, columns, int((stops - np.arange(rows)).max(initial=1)) - 1)
        # Rows without any weight have no logarithm: only runs can leave them out.
        if (starts == stops).any() or runs.count < 0.75 * causal.count:
            return runs
        return causal if causal.count < 0.95 * positive.size else cls.every(rows, columns)

    @classmethod
    def every(cls, rows: int, columns: int) -> "Support":
        """All cells."""
        return cls(EVERY, np.zeros(rows, np.int64), np.full(rows, columns), columns)

    @classmethod
    def causal(cls, rows: int, columns: int, offset: int) -> "Support":
        """Row i sees the columns 0 to i + offset."""
        stops = np.clip(np.arange(rows) + offset + 1, 0, columns)
        return cls(CAUSAL, np.zeros(rows, np.int64), stops, columns, offset)

    @property
    def cells(self) -> NDArray[np.bool_]:
        """The support as a mask (query key) of the map."""
        columns = np.arange(self.columns)
        return (columns >= self.starts[:, None]) & (columns < self.stops[:, None])

    @property
    def count(self) -> int:
        """How many cells it has."""
        return int((self.stops - self.starts).sum())

    def to_bytes(self) -> bytes:
        """Nothing for all cells, the offset if causal, or runs as differences between rows."""
        if self.kind == EVERY:
            return b""
        if self.kind == CAUSAL:
            return np.array(self.offset, "<i4").tobytes()
        ends = [np.diff(end, prepend=0).astype("<i4") for end in (self.starts, self.stops)]
        return b"".join(end.tobytes() for end in ends)

    @classmethod
    def read(cls, kind: int, rows: int, columns: int, data: memoryview) -> tuple["Support", int]:
        """The support that some bytes begin with, and how many bytes it takes."""
        if kind == EVERY:
            return cls.every(rows, columns), 0
        if kind == CAUSAL:
            return cls.causal(rows, columns, int(np.frombuffer(data, "<i4", 1)[0])), 4
        ends = np.frombuffer(data, "<i4", 2 * rows).reshape(2, rows).astype(np.int64).cumsum(1)
        return cls(RUNS, ends[0], ends[1], columns), 8 * rows
