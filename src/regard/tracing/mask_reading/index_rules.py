"""What a rule on indices means: asked at places that tell, described, and checked at many more."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.masks import Mask, Window, everything, padding, segments

Places = Int[Tensor, "..."]
Rule = Callable[[Places, Places, Places, Places], Bool[Tensor, "..."]]
"""Whether queries see keys, from four lists of equal length: examples, heads, rows, columns."""

WHOLE = 1 << 20  # pairs up to which a rule is asked about every one
ROWS = 61  # rows that are asked about every key
STRAY = 12  # keys that every row is asked about though nothing suggests them


class Sizes(NamedTuple):
    """The axes of a mask."""

    batch: int
    heads: int
    queries: int
    keys: int


@dataclass(frozen=True, eq=False)
class Reading:
    """A mask in a few facts: a window, which keys are real, and to which segment each belongs.

    Query i stands at position offset + i. `segments` are those of queries and of keys.
    """

    sizes: Sizes
    window: Window
    offset: int
    real: Bool[Tensor, "batch key"] | None = None
    segments: tuple[Int[Tensor, "batch query"], Int[Tensor, "batch key"]] | None = None

    @cached_property
    def mask(self) -> Mask:
        """The facts as a mask."""
        unlimited = (self.window.left, self.window.right) == (None, None)
        mask: Mask = everything() if unlimited else self.window
        if self.real is not None:
            mask = mask & padding(self.real)
        return mask if self.segments is None else mask & segments(*self.segments)

    def at(self, batch: Places, query: Places, key: Places) -> Bool[Tensor, "..."]:
        """Whether queries see keys, at places that broadcast."""
        batch, query, key = torch.broadcast_tensors(batch, query, key)
        ahead = key - query - self.offset
        seen = torch.ones_like(ahead, dtype=torch.bool)
        if self.window.left is not None:
            seen = seen & (ahead >= -self.window.left)
        if self.window.right is not None:
            seen = seen & (ahead <= self.window.right)
        if self.real is not None:
            seen = seen & self.real[batch, key]
        if self.segments is not None:
            own, other = self.segments
            seen = seen & (own[batch, query] == other[batch, key])
        return seen

    def cut(self, rows: range, columns: range) -> "Reading":
        """The reading of some rows and columns, counted from their corner."""
        sides = (slice(each.start, each.stop) for each in (rows, columns))
        down, across = sides
        parts = self.segments
        return replace(
            self,
            sizes=Sizes(self.sizes.batch, self.sizes.heads, len(rows), len(columns)),
            offset=self.offset + rows.start - columns.start,
            real=None if self.real is None else self.real[:, across],
            segments=None if parts is None else (parts[0][:, down], parts[1][:, across]),
        )

    def spread(self, batch: int) -> "Reading":
        """The reading for so many examples, where it was of one for all."""
        if self.sizes.batch == batch:
            return self
        own = self.segments
        return replace(
            self,
            sizes=self.sizes._replace(batch=batch),
            real=None if self.real is None else self.real.expand(batch, -1),
            segments=None if own is None else (own[0].expand(batch, -1), own[1].expand(batch, -1)),
        )


class Interview:
    """A rule, and what it answered."""

    def __init__(self, rule: Rule, sizes: Sizes, device: torch.device) -> None:
        self.rule, self.sizes, self.device = rule, sizes, device
        self.batch = torch.arange(sizes.batch, device=device)[:, None, None]
        self.rows = torch.arange(sizes.queries, device=device)
        self.columns = torch.arange(sizes.keys, device=device)

    def ask(self, query: Places, key: Places) -> Bool[Tensor, "batch row key"]:
        """The answers for every example; heads take turns, so that one that differs is met.

        Places broadcast; with three axes, keys are those of each example.
        """
        return torch.stack(
            [
                self._at(example, query, key[example] if key.dim() == 3 else key)
                for example in range(self.sizes.batch)
            ]
        )

    def _at(self, example: int, query: Places, key: Places) -> Bool[Tensor, "row key"]:
        query, key = torch.broadcast_tensors(query, key)
        batch = torch.full_like(query, example)
        return self._answers(batch, (query * 7 + key * 13) % self.sizes.heads, query, key)

    def _answers(self, *places: Places) -> Bool[Tensor, "..."]:
        seen = self.rule(*(each.reshape(-1) for each in places))
        return seen.expand(places[0].numel()).reshape(places[0].shape)

    def everywhere(self) -> Bool[Tensor, "batch head query key"]:
        """The answer for every pair of every head of every example."""
        batch = self.batch[..., None]
        head = torch.arange(self.sizes.heads, device=self.device)[:, None, None]
        places = torch.broadcast_tensors(batch, head, self.rows[:, None], self.columns)
        return self._answers(*places)


def read(
    rule: Rule,
    sizes: Sizes,
    device: torch.device,
    *,
    offset: int | None = None,
    real: Bool[Tensor, "batch key"] | None = None,
) -> Reading | None:
    """The shortest reading that agrees with the rule wherever it is asked; None if none does.

    Asked are both edges of every row, its own place, strays, and some rows whole: a key or a
    query that is unlike the others shows at its edges. A small rule is asked about every pair.
    With `real` the rule speaks of queries and keys that are all real; else padding is looked for.
    """
    interview = Interview(rule, sizes, device)
    few = torch.linspace(0, sizes.queries - 1, min(ROWS, sizes.queries), device=device).long()
    whole = interview.ask(few[:, None], interview.columns)
    if not bool(whole.any()):
        return None
    offset = _offset(whole, few, sizes) if offset is None else offset
    edges = _edges(whole, few, offset)
    parts = _segments(interview, offset)
    found = None if real is not None else _seen_keys(interview, whole, offset)
    places = _places(interview, offset, edges, parts[1])
    answers = interview.ask(interview.rows[:, None], places)
    for reading in _readings(sizes, offset, edges, found, parts):
        if (
            bool((reading.at(interview.batch, interview.rows[:, None], places) == answers).all())
            and bool((reading.at(interview.batch, few[:, None], interview.columns) == whole).all())
            and _agrees_everywhere(reading, interview)
        ):
            return reading if real is None else replace(reading, real=_unless_all(real))
    return None


def _readings(
    sizes: Sizes,
    offset: int,
    edges: tuple[int, int],
    real: Bool[Tensor, "batch key"] | None,
    parts: tuple[Int[Tensor, "batch query"], Int[Tensor, "batch key"]],
) -> Iterator[Reading]:
    """What the mask may be, the shortest first."""
    left, right = edges
    for own in (None, parts):
        for keys in (None, real) if real is not None else (None,):
            for near, far in ((None, None), (None, right), (left, None), (left, right)):
                yield Reading(sizes, Window(near, far), offset, keys, own)


def _agrees_everywhere(reading: Reading, interview: Interview) -> bool:
    batch, heads, queries, keys = interview.sizes
    if batch * heads * queries * keys > WHOLE:
        return True
    dense = reading.mask.dense(queries, keys, offset=reading.offset, device=interview.device)
    return bool((interview.everywhere() == dense).all())


def _offset(whole: Bool[Tensor, "batch row key"], few: Tensor, sizes: Sizes) -> int:
    """Where the first query stands: at the end of the keys if the mask is causal from there."""
    last = sizes.keys - sizes.queries
    return last if last > 0 and _edges(whole, few, last)[1] == 0 else 0


def _edges(whole: Bool[Tensor, "batch row key"], few: Tensor, offset: int) -> tuple[int, int]:
    """How far behind and ahead of itself any of the rows sees."""
    columns = torch.arange(whole.shape[2], device=whole.device)
    ahead = (columns - few[:, None] - offset)[whole.any(dim=0)]
    return -int(ahead.min()), int(ahead.max())


def _seen_keys(
    interview: Interview, whole: Bool[Tensor, "batch row key"], offset: int
) -> Bool[Tensor, "batch key"] | None:
    """The keys that their own query sees, or another that was asked; None if all are."""
    own = (interview.columns - offset).clamp(0, interview.sizes.queries - 1)
    seen = interview.ask(own[:, None], interview.columns[:, None])[..., 0] | whole.any(dim=1)
    return _unless_all(seen)


def _unless_all(real: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch key"] | None:
    return None if bool(real.all()) else real


def _segments(
    interview: Interview, offset: int
) -> tuple[Int[Tensor, "batch query"], Int[Tensor, "batch key"]]:
    """A segment ends where the next query does not look back at it."""
    last = interview.sizes.queries - 1
    own = (interview.columns - offset).clamp(0, last)
    before = (interview.columns - 1).clamp_min(0)
    begins = ~interview.ask(own[:, None], before[:, None])[..., 0]
    begins[:, 0] = False
    keys = begins.long().cumsum(dim=1)
    places = (interview.rows + offset).clamp(0, interview.sizes.keys - 1)
    return keys[:, places], keys


def _places(
    interview: Interview,
    offset: int,
    edges: tuple[int, int],
    segment: Int[Tensor, "batch key"],
) -> Int[Tensor, "batch query place"]:
    """The keys that every row is asked about."""
    batch, _, queries, keys = interview.sizes
    own = interview.rows + offset
    left, right = edges
    steps = (-left - 1, -left, -1, 0, 1, right, right + 1)
    alike = torch.stack([own + step for step in steps] + [own * 0, own * 0 + keys - 1], dim=1)
    chance = torch.Generator().manual_seed(queries)  # its own: the caller's stream is left alone
    stray = torch.randint(keys, (queries, STRAY), generator=chance).to(own)
    alike = torch.cat([alike, stray], dim=1).expand(batch, -1, -1)
    mine = segment[:, own.clamp(0, keys - 1)].contiguous()
    ordered = segment.contiguous()
    first = torch.searchsorted(ordered, mine)
    past = torch.searchsorted(ordered, mine, right=True)
    bounds = torch.stack([first - 1, first, past - 1, past], dim=2)
    return torch.cat([alike, bounds], dim=2).clamp(0, keys - 1)
