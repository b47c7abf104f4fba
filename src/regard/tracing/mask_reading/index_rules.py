"""Masks given as rules on indices: probed where candidates differ, described, and checked.

A rule is a function of (example, head, query, key) that says whether the query may see the key. To
evaluate it at every pair of a long text would cost as much as the dense mask that is to be avoided.
So a few rows are evaluated completely; from them come candidate descriptions (a causal window, a
sliding one, padding, segments of packed texts), the shortest first. A candidate is accepted only if
it agrees with the rule at both edges of every row, at random keys, and, if the mask is small, at
every single pair.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from regard.masks import Mask, Window, everything, padding, segments

Indices = Int[Tensor, "..."]
IndexRule = Callable[[Indices, Indices, Indices, Indices], Bool[Tensor, "..."]]
"""Whether queries see keys, from four lists of equal length: examples, heads, rows, columns."""
Segments = tuple[Int[Tensor, "batch query"], Int[Tensor, "batch key"]]

MAX_PAIRS = 1 << 20  # masks of up to this many pairs are checked at every pair
FULL_ROWS = 61  # rows that are evaluated at every key
RANDOM_KEYS = 12  # random keys at which every row is evaluated


class MaskSizes(NamedTuple):
    """The sizes of the four axes of a mask."""

    batch: int
    heads: int
    queries: int
    keys: int


@dataclass(frozen=True, eq=False)
class MaskFacts:
    """A mask as a few facts: a window, which keys are real, and the segment of each token.

    Query i stands at key position `offset` + i. `segments` numbers those of queries and of keys;
    a query sees only keys of its own segment.
    """

    sizes: MaskSizes
    window: Window
    offset: int
    real: Bool[Tensor, "batch key"] | None = None
    segments: Segments | None = None

    @cached_property
    def mask(self) -> Mask:
        """The facts as a mask of `regard.masks`."""
        unlimited = (self.window.left, self.window.right) == (None, None)
        mask: Mask = everything() if unlimited else self.window
        if self.real is not None:
            mask = mask & padding(self.real)
        return mask if self.segments is None else mask & segments(*self.segments)

    @cached_property
    def empty_rows(self) -> Bool[Tensor, "batch query"] | None:
        """The queries of each example that see no key; None if all see one."""
        if self.real is None or self.segments is not None:
            return None  # a query sees the key at its own position, of its own segment
        _, _, queries, keys = self.sizes
        own = torch.arange(queries, device=self.real.device) + self.offset
        left, right = self.window.left, self.window.right
        first = torch.zeros_like(own) if left is None else (own - left).clamp(0, keys)
        stop = torch.full_like(own, keys) if right is None else (own + right + 1).clamp(0, keys)
        # how many real keys stand before each position; those of a window are a difference
        before = F.pad(self.real.long().cumsum(dim=1), (1, 0))
        empty = before[:, stop] <= before[:, first]
        return empty if bool(empty.any()) else None

    def is_visible(self, batch: Indices, query: Indices, key: Indices) -> Bool[Tensor, "..."]:
        """Whether queries see keys, at indices that broadcast."""
        batch, query, key = torch.broadcast_tensors(batch, query, key)
        ahead = key - query - self.offset
        visible = torch.ones_like(ahead, dtype=torch.bool)
        if self.window.left is not None:
            visible = visible & (ahead >= -self.window.left)
        if self.window.right is not None:
            visible = visible & (ahead <= self.window.right)
        if self.real is not None:
            visible = visible & self.real[batch, key]
        if self.segments is not None:
            query_segments, key_segments = self.segments
            visible = visible & (query_segments[batch, query] == key_segments[batch, key])
        return visible

    def crop(self, rows: range, columns: range) -> "MaskFacts":
        """The facts of some rows and columns, which are counted from the corner of the part."""
        down, across = slice(rows.start, rows.stop), slice(columns.start, columns.stop)
        both = self.segments
        return replace(
            self,
            sizes=MaskSizes(self.sizes.batch, self.sizes.heads, len(rows), len(columns)),
            offset=self.offset + rows.start - columns.start,
            real=None if self.real is None else self.real[:, across],
            segments=None if both is None else (both[0][:, down], both[1][:, across]),
        )

    def for_batch(self, batch: int) -> "MaskFacts":
        """The facts of a batch of this size, where they were those of one example for all."""
        if self.sizes.batch == batch:
            return self
        both = self.segments
        return replace(
            self,
            sizes=self.sizes._replace(batch=batch),
            real=None if self.real is None else self.real.expand(batch, -1),
            segments=None
            if both is None
            else (both[0].expand(batch, -1), both[1].expand(batch, -1)),
        )


class RuleProbe:
    """Evaluates a rule at chosen queries and keys."""

    def __init__(self, rule: IndexRule, sizes: MaskSizes, device: torch.device) -> None:
        self.rule, self.sizes, self.device = rule, sizes, device
        self.batch = torch.arange(sizes.batch, device=device)[:, None, None]
        self.rows = torch.arange(sizes.queries, device=device)
        self.columns = torch.arange(sizes.keys, device=device)

    def evaluate(self, query: Indices, key: Indices) -> Bool[Tensor, "batch row key"]:
        """Whether queries see keys in every example, at indices that broadcast.

        Keys with three axes are those of each example. Heads alternate from place to place, so
        that a head with a rule of its own is noticed.
        """
        return torch.stack(
            [
                self._evaluate_example(example, query, key[example] if key.dim() == 3 else key)
                for example in range(self.sizes.batch)
            ]
        )

    def _evaluate_example(
        self, example: int, query: Indices, key: Indices
    ) -> Bool[Tensor, "row key"]:
        query, key = torch.broadcast_tensors(query, key)
        batch = torch.full_like(query, example)
        return self._call(batch, (query * 7 + key * 13) % self.sizes.heads, query, key)

    def _call(self, *indices: Indices) -> Bool[Tensor, "..."]:
        visible = self.rule(*(index.reshape(-1) for index in indices))
        return visible.expand(indices[0].numel()).reshape(indices[0].shape)

    def evaluate_everywhere(self) -> Bool[Tensor, "batch head query key"]:
        """Whether queries see keys, for every pair of every head of every example."""
        batch = self.batch[..., None]
        head = torch.arange(self.sizes.heads, device=self.device)[:, None, None]
        return self._call(*torch.broadcast_tensors(batch, head, self.rows[:, None], self.columns))


def read_index_rule(
    rule: IndexRule,
    sizes: MaskSizes,
    device: torch.device,
    *,
    offset: int | None = None,
    real: Bool[Tensor, "batch key"] | None = None,
) -> MaskFacts | None:
    """The shortest facts that agree with the rule wherever it is evaluated; None if none do.

    With `real` the rule speaks of real queries and keys only, and padding is added from `real`;
    without it, padding is looked for in the rule itself.
    """
    probe = RuleProbe(rule, sizes, device)
    some = torch.linspace(0, sizes.queries - 1, min(FULL_ROWS, sizes.queries), device=device).long()
    full_rows = probe.evaluate(some[:, None], probe.columns)
    if not bool(full_rows.any()):
        return None
    offset = _first_position(full_rows, some, sizes) if offset is None else offset
    edges = _window_edges(full_rows, some, offset)
    parts = _find_segments(probe, offset)
    seen_keys = None if real is not None else _find_real_keys(probe, full_rows, offset)
    keys = _deciding_keys(probe, offset, edges, parts[1])
    answers = probe.evaluate(probe.rows[:, None], keys)
    for facts in _candidates(sizes, offset, edges, seen_keys, parts):
        if (
            bool((facts.is_visible(probe.batch, probe.rows[:, None], keys) == answers).all())
            and bool(
                (facts.is_visible(probe.batch, some[:, None], probe.columns) == full_rows).all()
            )
            and _agrees_everywhere(facts, probe)
        ):
            return facts if real is None else replace(facts, real=_none_if_all(real))
    return None


def _candidates(
    sizes: MaskSizes,
    offset: int,
    edges: tuple[int, int],
    real: Bool[Tensor, "batch key"] | None,
    parts: Segments,
) -> Iterator[MaskFacts]:
    """What the mask may be, the shortest description first."""
    left, right = edges
    for segment_numbers in (None, parts):
        for keys in (None, real) if real is not None else (None,):
            for back, ahead in ((None, None), (None, right), (left, None), (left, right)):
                yield MaskFacts(sizes, Window(back, ahead), offset, keys, segment_numbers)


def _agrees_everywhere(facts: MaskFacts, probe: RuleProbe) -> bool:
    """True if the facts agree with the rule at every pair, or the mask is too large to check."""
    batch, heads, queries, keys = probe.sizes
    if batch * heads * queries * keys > MAX_PAIRS:
        return True
    dense = facts.mask.dense(queries, keys, offset=facts.offset, device=probe.device)
    return bool((probe.evaluate_everywhere() == dense).all())


def _first_position(
    full_rows: Bool[Tensor, "batch row key"], some: Tensor, sizes: MaskSizes
) -> int:
    """The position of the first query: at the end of the keys if the mask is causal from there."""
    last = sizes.keys - sizes.queries
    return last if last > 0 and _window_edges(full_rows, some, last)[1] == 0 else 0


def _window_edges(
    full_rows: Bool[Tensor, "batch row key"], some: Tensor, offset: int
) -> tuple[int, int]:
    """How many keys back and ahead of its own position any of the rows sees."""
    columns = torch.arange(full_rows.shape[2], device=full_rows.device)
    ahead = (columns - some[:, None] - offset)[full_rows.any(dim=0)]
    return -int(ahead.min()), int(ahead.max())


def _find_real_keys(
    probe: RuleProbe, full_rows: Bool[Tensor, "batch row key"], offset: int
) -> Bool[Tensor, "batch key"] | None:
    """The keys that their own query sees, or one of the full rows; None if all are seen."""
    own = (probe.columns - offset).clamp(0, probe.sizes.queries - 1)
    by_own_query = probe.evaluate(own[:, None], probe.columns[:, None])[..., 0]
    return _none_if_all(by_own_query | full_rows.any(dim=1))


def _none_if_all(real: Bool[Tensor, "batch key"]) -> Bool[Tensor, "batch key"] | None:
    return None if bool(real.all()) else real


def _find_segments(probe: RuleProbe, offset: int) -> Segments:
    """Numbers of segments: a new one begins at each key whose query does not see the key before."""
    last = probe.sizes.queries - 1
    own = (probe.columns - offset).clamp(0, last)
    before = (probe.columns - 1).clamp_min(0)
    begins = ~probe.evaluate(own[:, None], before[:, None])[..., 0]
    begins[:, 0] = False
    keys = begins.long().cumsum(dim=1)
    positions = (probe.rows + offset).clamp(0, probe.sizes.keys - 1)
    return keys[:, positions], keys


def _deciding_keys(
    probe: RuleProbe, offset: int, edges: tuple[int, int], segment: Int[Tensor, "batch key"]
) -> Int[Tensor, "batch query place"]:
    """The keys at which every row is evaluated: around both edges, its own, and random ones.

    Where segments begin and end is added for each example.
    """
    batch, _, queries, keys = probe.sizes
    own = probe.rows + offset
    left, right = edges
    steps = (-left - 1, -left, -1, 0, 1, right, right + 1)
    shared = torch.stack([own + step for step in steps] + [own * 0, own * 0 + keys - 1], dim=1)
    # a generator of its own, so that the caller's random numbers stay what they are
    generator = torch.Generator().manual_seed(queries)
    random = torch.randint(keys, (queries, RANDOM_KEYS), generator=generator).to(own)
    shared = torch.cat([shared, random], dim=1).expand(batch, -1, -1)
    own_segment = segment[:, own.clamp(0, keys - 1)].contiguous()
    ordered = segment.contiguous()
    first = torch.searchsorted(ordered, own_segment)
    past = torch.searchsorted(ordered, own_segment, right=True)
    bounds = torch.stack([first - 1, first, past - 1, past], dim=2)
    return torch.cat([shared, bounds], dim=2).clamp(0, keys - 1)
