"""flex_attention's tap: its rules on indices as a mask, a bias and a cap, or its weights.

Every flex_attention comes down to one operator of torch, however it was imported: while compiled
functions run eagerly it passes watchers on its way.
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
from torch.nn.attention import flex_attention as room

from regard.kernels.observe import Scoring
from regard.kernels.observe.taps import Tapped, register_tap
from regard.masks import Bias, Mask, tensor_bias
from regard.masks.bias import Alibi
from regard.masks.mask import Everything
from regard.tracing.mask_reading.index_rules import Places, Sizes, read
from regard.tracing.recording.sdpa import as_description

NEVER = float("-inf")
UNCHANGED = getattr(room, "_identity", None)  # what stands for no rule on scores
BLOCK = 1 << 20  # scores that are held at once
LEVELS = (-83.0, -7.0, -1.5, -0.25, 0.375, 2.0, 11.0, 97.0)  # scores at which a rule is tried
CLOSE = 1e-4
STRAY = 1 << 16  # places anywhere at which a rule is tried, beside those of every row


@dataclass(frozen=True, eq=False)
class Flexed:
    """One call of flex_attention: what it takes, and its two rules."""

    query: Tensor
    key: Tensor
    value: Tensor
    score_mod: Callable[..., Tensor]
    mask_mod: Callable[..., Tensor]
    scale: float
    buffers: tuple[Any, ...]
    mask_buffers: tuple[Any, ...]

    @cached_property
    def sizes(self) -> Sizes:
        """Batch, heads, queries, keys."""
        batch, heads, queries, _ = self.query.shape
        return Sizes(batch, heads, queries, self.key.shape[2])

    @property
    def kind(self) -> torch.dtype:
        """The dtype in which scores are computed."""
        return torch.float64 if self.query.dtype == torch.float64 else torch.float32

    def sees(self, *places: Places) -> Bool[Tensor, "..."]:
        """Which of the places the mask shows; the four lists are of equal length."""
        return _mapped(self.mask_mod, places, self.mask_buffers).bool()

    def rescored(self, score: Float[Tensor, "..."], *places: Places) -> Float[Tensor, "..."]:
        """What becomes of scores at places."""
        if self.score_mod is UNCHANGED:
            return score
        return _mapped(self.score_mod, (score, *places), self.buffers).to(score)

    def shown(self, *places: Places) -> Bool[Tensor, "..."]:
        """Which of the places neither the mask nor the scores hide."""
        zero = torch.zeros(places[0].shape, dtype=self.kind, device=places[0].device)
        with torch.no_grad():
            return self.sees(*places) & (self.rescored(zero, *places) > NEVER)

    def grid(self, rows: range) -> tuple[Tensor, ...]:
        """The places of some rows, all of them, as four lists."""
        batch, heads, _, keys = self.sizes
        sides = (range(batch), range(heads), rows, range(keys))
        axes = [torch.arange(s.start, s.stop, device=self.query.device) for s in sides]
        return tuple(each.reshape(-1) for each in torch.meshgrid(*axes, indexing="ij"))

    def blocks(self) -> Iterator[range]:
        """All rows, some at a time."""
        batch, heads, queries, keys = self.sizes
        tall = max(1, BLOCK // max(1, batch * heads * keys))
        yield from (range(top, min(queries, top + tall)) for top in range(0, queries, tall))

    def scores(self, rows: range) -> Float[Tensor, "batch head row key"]:
        """The scores of some rows, as the softmax gets them."""
        group = self.query.shape[1] // self.key.shape[1]
        key = self.key.to(self.kind).repeat_interleave(group, dim=1)
        few = self.query[:, :, rows.start : rows.stop].to(self.kind)
        plain = few @ key.mT * self.scale
        places = self.grid(rows)
        scores = self.rescored(plain.reshape(-1), *places)
        return torch.where(self.sees(*places), scores, NEVER).view(plain.shape)


def _mapped(rule: Any, lists: tuple[Tensor, ...], buffers: tuple[Any, ...]) -> Tensor:
    """A rule on numbers, over lists of them: as torch itself does it."""
    each = (0,) * len(lists) + (None,) * len(buffers)
    # with the compiler, which takes seconds to import and is there once flex_attention has run
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    with TransformGetItemToIndex():
        found: Tensor = torch.vmap(rule, in_dims=each)(*lists, *buffers)
    return found


def describe_flex(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Tensor],
    block_mask: tuple[Any, ...],
    scale: float,
    *rest: Any,
) -> Tapped:
    """One call of flex_attention: a scoring if its rules have one, else its weights."""
    options: dict[str, Any] = rest[0] if rest else {}
    buffers: Any = rest[1:] or ((), ())  # what the two rules take beside places
    key, value = (each.expand(len(query), -1, -1, -1) for each in (key, value))
    call = Flexed(query, key, value, score_mod, block_mask[-1], scale, *buffers)

    def finish(context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return context, *_extremes(call, options)

    probes = _probes(call)
    cap = _cap(call, probes)
    if cap is None:
        return Tapped(query, key, value, finish, weights=_weights(call))
    mask, offset = _mask(call)
    scoring = Scoring(
        scale=scale,
        mask=mask,
        bias=_bias(call, probes, offset),
        offset=offset,
        softcap=None if cap == math.inf else cap,
    )
    return Tapped(query, key, value, finish, scoring)


def _weights(call: Flexed) -> Float[Tensor, "batch head query key"]:
    """All weights, computed some rows at a time; a row that sees nothing has none."""
    rows = [torch._safe_softmax(call.scores(rows), dim=-1) for rows in call.blocks()]
    return torch.cat(rows, dim=2).to(call.query.dtype)


def _extremes(call: Flexed, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The logsumexp and the largest score of each row where asked for, as powers of two."""
    nothing = call.query.new_empty(0)
    wanted = [options.get(name, False) for name in ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX")]
    if not any(wanted):
        return nothing, nothing
    rows = [(each.logsumexp(-1), each.amax(-1)) for each in map(call.scores, call.blocks())]
    level, largest = (torch.cat(each, dim=2) / math.log(2) for each in zip(*rows, strict=True))
    return level if wanted[0] else nothing, largest if wanted[1] else nothing


def _mask(call: Flexed) -> tuple[Mask | None, int]:
    """Which keys are shown, as short as it can be said, and where the first query stands."""
    sizes, device = call.sizes, call.query.device
    reading = read(call.shown, sizes, device)
    if reading is not None:
        return None if isinstance(reading.mask, Everything) else reading.mask, reading.offset
    rows = [
        call.shown(*call.grid(rows)).view(*sizes[:2], len(rows), sizes.keys)
        for rows in call.blocks()
    ]
    mask = as_description(torch.cat(rows, dim=2))
    return mask, sizes.keys - sizes.queries if mask.split()[0].right == 0 else 0


def _probes(call: Flexed) -> tuple[Tensor, ...]:
    """Places that count, to try a rule at: all if they are few, else of each row and strays."""
    sizes, device = call.sizes, call.query.device
    if math.prod(sizes) <= STRAY:
        places = call.grid(range(sizes.queries))
    else:
        chance = torch.Generator().manual_seed(sizes.keys)  # the caller's stream is left alone
        stray = [torch.randint(size, (STRAY,), generator=chance) for size in sizes]
        rows = torch.arange(sizes.queries)
        own = (rows + sizes.keys - sizes.queries).clamp(0, sizes.keys - 1)
        for key in (own, (own - 1).clamp_min(0), rows * 0, own // 2):
            near = (rows % sizes.batch, rows % sizes.heads, rows, key)
            stray = [torch.cat(pair) for pair in zip(stray, near, strict=True)]
        places = tuple(each.to(device) for each in stray)
    shown = call.shown(*places)
    return tuple(each[shown] for each in places)


def _cap(call: Flexed, places: tuple[Tensor, ...]) -> float | None:
    """The cap c for which a score s becomes c tanh(s / c), apart from what is added to it.

    Infinity if it stays s; None if something else becomes of it.
    """
    if call.score_mod is UNCHANGED or not len(places[0]):
        return math.inf
    with torch.no_grad():
        added = _raised(call, 0.0, places)
        bends = {level: _raised(call, level, places) - added for level in LEVELS}

    def bent(cap: float) -> bool:
        wanted = {s: s if cap == math.inf else cap * math.tanh(s / cap) for s in LEVELS}
        return all(bool((bends[s] - wanted[s]).abs().max() < CLOSE) for s in LEVELS)

    if bent(math.inf):
        return math.inf
    most = LEVELS[-1]
    low, high, reached = 1e-3, 1e6, float(bends[most].median())
    for _ in range(100):  # what the highest score becomes grows with the cap
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.tanh(most / middle) < reached else (low, middle)
    cap = float(f"{low:.6g}")
    return cap if bent(cap) else None


def _raised(call: Flexed, level: float, places: tuple[Tensor, ...]) -> Float[Tensor, " place"]:
    """What a score becomes at places, precise enough to see it beside a large bias."""
    score = torch.full(places[0].shape, level, dtype=torch.float64, device=places[0].device)
    return call.rescored(score, *places)


def _bias(call: Flexed, places: tuple[Tensor, ...], offset: int) -> Bias | None:
    """What is added to the scores: nothing, a slope for each head, or a tensor."""
    if call.score_mod is UNCHANGED or not len(places[0]):
        return None
    with torch.no_grad():
        added = _raised(call, 0.0, places)
    if not bool(added.any()):
        return None
    return _slopes(call, places, added, offset) or tensor_bias(_dense_bias(call))


def _slopes(
    call: Flexed, places: tuple[Tensor, ...], added: Float[Tensor, " place"], offset: int
) -> Bias | None:
    """A slope for each head, by which scores fall with the distance (Press et al. 2022)."""
    _, head, query, key = places
    far = (key - query - offset).abs()
    steep = torch.zeros(call.sizes.heads, dtype=added.dtype, device=added.device)
    steep[head[far > 0]] = (-added / far)[far > 0]
    same = (added + steep[head] * far).abs() <= 1e-6 * (1 + added.abs())
    return Alibi(tuple(steep.tolist())) if bool(same.all()) else None


def _dense_bias(call: Flexed) -> Float[Tensor, "batch head query key"]:
    """What is added to every score, once where examples or heads share it."""
    rows = []
    for block in call.blocks():
        places = call.grid(block)
        zero = torch.zeros(places[0].shape, dtype=call.kind, device=places[0].device)
        added = call.rescored(zero, *places).view(*call.sizes[:2], len(block), -1)
        rows.append(added.masked_fill(added == NEVER, 0))
    bias = torch.cat(rows, dim=2)
    for axis in (0, 1):
        first = bias.narrow(axis, 0, 1)
        bias = first if bool((bias == first).all()) else bias
    return bias


register_tap(flex_attention, describe_flex)
