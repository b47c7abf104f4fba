"""Describes calls of flex_attention: its two rules on indices as a mask, a bias and a score cap.

flex_attention takes a `mask_mod`, which says whether a query sees a key, and a `score_mod`, which
changes a score. If `score_mod` is c * tanh(score / c) and adds something that does not depend on
the score, the call is a softmax over inner products that the fast kernels can observe. If not, the
weights are computed here as they are. Every flex_attention, however it was imported, comes down to
one operator of torch, and that operator is tapped.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention
from torch.nn.attention import flex_attention as flex_module

from regard.kernels.observe import Scoring
from regard.kernels.observe.taps import Tapped, register_tap
from regard.masks import Bias, Mask, tensor_bias
from regard.masks.bias import Alibi
from regard.masks.mask import Everything
from regard.tracing.mask_reading.dense import describe_dense_mask
from regard.tracing.mask_reading.index_rules import Indices, MaskSizes, read_index_rule

MINUS_INFINITY = float("-inf")
NO_SCORE_MOD = getattr(flex_module, "_identity", None)  # torch's stand-in where none was passed
BLOCK = 1 << 20  # scores that are held in memory at once
# scores at which a score_mod is evaluated to find out what it does with them
TEST_SCORES = (-83.0, -7.0, -1.5, -0.25, 0.375, 2.0, 11.0, 97.0)
TOLERANCE = 1e-4
RANDOM_PAIRS = 1 << 16  # random pairs at which a rule is evaluated, beside some of every row


@dataclass(frozen=True, eq=False)
class FlexCall:
    """The arguments of one call of flex_attention."""

    query: Tensor
    key: Tensor
    value: Tensor
    score_mod: Callable[..., Tensor]
    mask_mod: Callable[..., Tensor]
    scale: float
    buffers: tuple[Any, ...]
    mask_buffers: tuple[Any, ...]

    @cached_property
    def sizes(self) -> MaskSizes:
        """Batch, heads, queries, keys."""
        batch, heads, queries, _ = self.query.shape
        return MaskSizes(batch, heads, queries, self.key.shape[2])

    @property
    def score_dtype(self) -> torch.dtype:
        """The dtype in which scores are computed."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    def apply_mask(self, *indices: Indices) -> Bool[Tensor, "..."]:
        """Which pairs the mask_mod shows; the four lists of indices are of equal length."""
        return _map_over(self.mask_mod, indices, self.mask_buffers).bool()

    def modify_scores(
        self, scores: Float[Tensor, "..."], *indices: Indices
    ) -> Float[Tensor, "..."]:
        """The scores of pairs after the score_mod."""
        if self.score_mod is NO_SCORE_MOD:
            return scores
        return _map_over(self.score_mod, (scores, *indices), self.buffers).to(scores)

    def is_visible(self, *indices: Indices) -> Bool[Tensor, "..."]:
        """Which pairs are hidden neither by the mask_mod nor by a score_mod of minus infinity."""
        zero = torch.zeros(indices[0].shape, dtype=self.score_dtype, device=indices[0].device)
        with torch.no_grad():
            return self.apply_mask(*indices) & (self.modify_scores(zero, *indices) > MINUS_INFINITY)

    def pairs_of(self, rows: range) -> tuple[Tensor, ...]:
        """All pairs of some rows, as four lists of indices."""
        batch, heads, _, keys = self.sizes
        sides = (range(batch), range(heads), rows, range(keys))
        axes = [torch.arange(side.start, side.stop, device=self.query.device) for side in sides]
        return tuple(index.reshape(-1) for index in torch.meshgrid(*axes, indexing="ij"))

    def blocks(self) -> Iterator[range]:
        """All rows, in blocks whose scores fit into memory."""
        batch, heads, queries, keys = self.sizes
        height = max(1, BLOCK // max(1, batch * heads * keys))
        yield from (range(top, min(queries, top + height)) for top in range(0, queries, height))

    def scores(self, rows: range) -> Float[Tensor, "batch head row key"]:
        """The scores of some rows, as the softmax gets them."""
        group = self.query.shape[1] // self.key.shape[1]
        key = self.key.to(self.score_dtype).repeat_interleave(group, dim=1)
        queries = self.query[:, :, rows.start : rows.stop].to(self.score_dtype)
        products = queries @ key.mT * self.scale
        indices = self.pairs_of(rows)
        scores = self.modify_scores(products.reshape(-1), *indices)
        scores = torch.where(self.apply_mask(*indices), scores, MINUS_INFINITY)
        return scores.view(products.shape)


def _map_over(rule: Any, lists: tuple[Tensor, ...], buffers: tuple[Any, ...]) -> Tensor:
    """A rule on single numbers, over lists of them, as torch itself evaluates it."""
    axes = (0,) * len(lists) + (None,) * len(buffers)
    # imported here because it loads torch's compiler, which takes seconds; where flex_attention
    # runs, it is loaded already
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    with TransformGetItemToIndex():
        results: Tensor = torch.vmap(rule, in_dims=axes)(*lists, *buffers)
    return results


def describe_flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    *rest: Any,
) -> Tapped:
    """One call of flex_attention: with a scoring if its rules have one, else with its weights."""
    options: dict[str, Any] = rest[0] if rest else {}
    buffers: Any = rest[1:] or ((), ())  # further arguments of the two rules
    key, value = (side.expand(len(query), -1, -1, -1) for side in (key, value))
    call = FlexCall(query, key, value, score_mod, block_mask[-1], scale, *buffers)

    def finish(context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return context, *_row_extremes(call, options)

    pairs = _test_pairs(call)
    cap = _find_score_cap(call, pairs)
    if cap is None:
        return Tapped(query, key, value, finish, weights=_compute_weights(call))
    mask, offset = _describe_mask(call)
    scoring = Scoring(
        scale=scale,
        mask=mask,
        bias=_describe_bias(call, pairs, offset),
        offset=offset,
        softcap=None if cap == math.inf else cap,
    )
    return Tapped(query, key, value, finish, scoring)


def _compute_weights(call: FlexCall) -> Float[Tensor, "batch head query key"]:
    """All weights, computed block by block; a row that sees nothing is zeros."""
    rows = [torch._safe_softmax(call.scores(rows), dim=-1) for rows in call.blocks()]
    return torch.cat(rows, dim=2).to(call.query.dtype)


def _row_extremes(call: FlexCall, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The logsumexp and the largest score of each row, if the caller wants them.

    The operator returns both in base 2, hence the division.
    """
    empty = call.query.new_empty(0)
    wants_lse, wants_max = options.get("OUTPUT_LOGSUMEXP", False), options.get("OUTPUT_MAX", False)
    if not wants_lse and not wants_max:
        return empty, empty
    rows = [(scores.logsumexp(-1), scores.amax(-1)) for scores in map(call.scores, call.blocks())]
    lse, largest = (torch.cat(parts, dim=2) / math.log(2) for parts in zip(*rows, strict=True))
    return lse if wants_lse else empty, largest if wants_max else empty


def _describe_mask(call: FlexCall) -> tuple[Mask | None, int]:
    """The mask as short as it can be described, and the position of the first query."""
    sizes, device = call.sizes, call.query.device
    facts = read_index_rule(call.is_visible, sizes, device)
    if facts is not None:
        return None if isinstance(facts.mask, Everything) else facts.mask, facts.offset
    rows = [
        call.is_visible(*call.pairs_of(rows)).view(*sizes[:2], len(rows), sizes.keys)
        for rows in call.blocks()
    ]
    mask = describe_dense_mask(torch.cat(rows, dim=2))
    return mask, sizes.keys - sizes.queries if mask.split()[0].right == 0 else 0


def _test_pairs(call: FlexCall) -> tuple[Tensor, ...]:
    """Visible pairs at which to test the score_mod: all if they are few, else some of every row."""
    sizes, device = call.sizes, call.query.device
    if math.prod(sizes) <= RANDOM_PAIRS:
        indices = call.pairs_of(range(sizes.queries))
    else:
        # a generator of its own, so that the caller's random numbers stay what they are
        generator = torch.Generator().manual_seed(sizes.keys)
        chosen = [torch.randint(size, (RANDOM_PAIRS,), generator=generator) for size in sizes]
        rows = torch.arange(sizes.queries)
        own = (rows + sizes.keys - sizes.queries).clamp(0, sizes.keys - 1)
        for key in (own, (own - 1).clamp_min(0), rows * 0, own // 2):
            in_row = (rows % sizes.batch, rows % sizes.heads, rows, key)
            chosen = [torch.cat(pair) for pair in zip(chosen, in_row, strict=True)]
        indices = tuple(index.to(device) for index in chosen)
    visible = call.is_visible(*indices)
    return tuple(index[visible] for index in indices)


def _find_score_cap(call: FlexCall, indices: tuple[Tensor, ...]) -> float | None:
    """The cap c if the score_mod turns a score s into c tanh(s / c) plus something without s.

    Infinity if s stays s; None if the score_mod does anything else.
    """
    if call.score_mod is NO_SCORE_MOD or not len(indices[0]):
        return math.inf
    with torch.no_grad():
        added = _modified(call, 0.0, indices)
        changes = {score: _modified(call, score, indices) - added for score in TEST_SCORES}

    def fits(cap: float) -> bool:
        capped = {s: s if cap == math.inf else cap * math.tanh(s / cap) for s in TEST_SCORES}
        return all(bool((changes[s] - capped[s]).abs().max() < TOLERANCE) for s in TEST_SCORES)

    if fits(math.inf):
        return math.inf
    # c tanh(s / c) grows with c, so c is found by bisection from what became of the highest score
    highest = TEST_SCORES[-1]
    low, high, reached = 1e-3, 1e6, float(changes[highest].median())
    for _ in range(100):
        middle = (low + high) / 2
        below = middle * math.tanh(highest / middle) < reached
        low, high = (middle, high) if below else (low, middle)
    cap = float(f"{low:.6g}")
    return cap if fits(cap) else None


def _modified(call: FlexCall, score: float, indices: tuple[Tensor, ...]) -> Float[Tensor, " pair"]:
    """What one score becomes at pairs, in float64 so that it shows beside a large bias."""
    device = indices[0].device
    scores = torch.full(indices[0].shape, score, dtype=torch.float64, device=device)
    return call.modify_scores(scores, *indices)


def _describe_bias(call: FlexCall, indices: tuple[Tensor, ...], offset: int) -> Bias | None:
    """What is added to the scores: nothing, a slope for each head, or a tensor."""
    if call.score_mod is NO_SCORE_MOD or not len(indices[0]):
        return None
    with torch.no_grad():
        added = _modified(call, 0.0, indices)
    if not bool(added.any()):
        return None
    return _find_slopes(call, indices, added, offset) or tensor_bias(_dense_bias(call))


def _find_slopes(
    call: FlexCall, indices: tuple[Tensor, ...], added: Float[Tensor, " pair"], offset: int
) -> Bias | None:
    """One slope per head by which scores fall with distance (Press et al. 2022), if that fits."""
    _, head, query, key = indices
    distance = (key - query - offset).abs()
    slopes = torch.zeros(call.sizes.heads, dtype=added.dtype, device=added.device)
    slopes[head[distance > 0]] = (-added / distance)[distance > 0]
    fits = (added + slopes[head] * distance).abs() <= 1e-6 * (1 + added.abs())
    return Alibi(tuple(slopes.tolist())) if bool(fits.all()) else None


def _dense_bias(call: FlexCall) -> Float[Tensor, "batch head query key"]:
    """What is added to every score, with a single example or head where all share it."""
    rows = []
    for block in call.blocks():
        indices = call.pairs_of(block)
        zero = torch.zeros(indices[0].shape, dtype=call.score_dtype, device=indices[0].device)
        added = call.modify_scores(zero, *indices).view(*call.sizes[:2], len(block), -1)
        rows.append(added.masked_fill(added == MINUS_INFINITY, 0))
    bias = torch.cat(rows, dim=2)
    for axis in (0, 1):
        first = bias.narrow(axis, 0, 1)
        bias = first if bool((bias == first).all()) else bias
    return bias


register_tap(flex_attention, describe_flex)
