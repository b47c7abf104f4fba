"""A model's own plain attention as one call: described from its arguments, if that is what it does.

The function is one that takes (module, query, key, value, mask, scaling, ...) and gives context
and weights. What it does is checked on a few rows, at every call of more than one query.
"""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RegardError
from regard.kernels.observe.taps import Tapped, register_tap
from regard.masks import Area, tensor_bias
from regard.tracing.mask_reading.lazy import LazyMask, Making, Unmade
from regard.tracing.recording.sdpa import describe_sdpa

CLOSE = 1e-4  # how far apart weights may be that were rounded differently
Own = Callable[..., Any]

_trusted: weakref.WeakKeyDictionary[nn.Module, dict[Own, bool]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Asked:
    """One call of a model's attention function."""

    own: Own
    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    terms: dict[str, Any]

    def run(self) -> Any:
        """What the model's own function gives."""
        return self.own(self.module, self.query, self.key, self.value, self.mask, **self.terms)


def interface(own: Own) -> Own:
    """The function, for watchers: described where its arguments say what it does."""

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        *args: Any,
        **terms: Any,
    ) -> Any:
        if args or not isinstance(module, nn.Module):
            return own(module, query, key, value, attention_mask, *args, **terms)
        asked = Asked(own, module, query, key, value, attention_mask, terms)
        tapped = _described(asked)
        return asked.run() if tapped is None else _attended(tapped, asked)

    return attention


def _attended(tapped: Tapped, asked: Asked) -> Any:
    """The function's own result; a watcher sees the call pass here."""
    if torch.overrides.has_torch_function((tapped.query,)):
        return torch.overrides.handle_torch_function(_attended, (tapped.query,), tapped, asked)
    return asked.run()


register_tap(_attended, lambda tapped, asked: tapped)


def _described(asked: Asked) -> Tapped | None:
    """The call in our words; None where the caller wants weights, or it does something else."""
    config = getattr(asked.module, "config", None)
    if asked.terms.get("output_attentions") or getattr(config, "output_attentions", False):
        return None
    try:
        tapped = _tapped(asked)
        gives_weights = None if tapped is None else _checked(asked, tapped)
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError, RegardError):
        return None  # its arguments mean something else than we think
    if tapped is None or gives_weights is None:
        return None

    def finish(context: Tensor) -> tuple[Tensor, Tensor | None]:
        return context.transpose(1, 2).contiguous(), _weights(asked) if gives_weights else None

    dropout = float(asked.terms.get("dropout") or 0.0) if asked.module.training else 0.0
    return replace(tapped, finish=finish, dropout=dropout)


def _weights(asked: Asked) -> Tensor:
    """The weights that the function would give, made if somebody reads them."""
    query, keys = asked.query, asked.key.shape[2]
    making = Making(lambda: asked.run()[1])
    return Unmade(making, (*query.shape[:3], keys), query.dtype, query.device)


def _tapped(asked: Asked) -> Tapped | None:
    """What the arguments say."""
    query, key, mask, terms = asked.query, asked.key, asked.mask, asked.terms
    if not query.dim() == key.dim() == asked.value.dim() == 4 or query.shape[1] % key.shape[1]:
        return None
    if mask is not None and mask.shape[-1] > key.shape[2]:
        mask = mask[..., : key.shape[2]]
    tapped = describe_sdpa(query, key, asked.value, mask, scale=terms.get("scaling"))
    scoring, bias, sink = tapped.scoring, terms.get("position_bias"), terms.get("s_aux")
    assert scoring is not None
    if bias is not None:
        added = tensor_bias(bias[..., : tapped.key.shape[2]])
        scoring = replace(scoring, bias=added if scoring.bias is None else scoring.bias + added)
    sink = None if sink is None else sink.reshape(-1)
    return replace(tapped, scoring=replace(scoring, softcap=terms.get("softcap"), sink=sink))


def _checked(asked: Asked, tapped: Tapped) -> bool | None:
    """Whether the function gives weights too; None if it does not do what the call says."""
    known = _trusted.setdefault(asked.module, {})
    if asked.query.shape[2] == 1 and asked.own in known:
        return known[asked.own]
    known.pop(asked.own, None)
    with torch.no_grad(), torch._C.DisableTorchFunction():
        gives_weights = _agreeing(asked, tapped)
    if gives_weights is not None:
        known[asked.own] = gives_weights
    return gives_weights


def _agreeing(asked: Asked, tapped: Tapped) -> bool | None:
    queries, keys = asked.query.shape[2], tapped.key.shape[2]
    rows = sorted({0, queries // 3, queries * 2 // 3, queries - 1})
    few = _few(asked, rows)
    context, weights = few.run()[:2]
    expected, sees = _plain(few, tapped, rows)
    groups = few.query.shape[1] // few.key.shape[1]
    mixed = (expected @ few.value[:, :, :keys].repeat_interleave(groups, dim=1)).transpose(1, 2)
    most = CLOSE * max(1.0, float(few.value.abs().max()))
    if context.shape != mixed.shape or _apart(context, mixed, most, sees.transpose(1, 2)):
        return None
    if weights is None:
        return False
    return None if _apart(weights[..., :keys], expected, CLOSE, sees) else True


def _apart(one: Tensor, other: Tensor, most: float, counts: Tensor) -> bool:
    """Whether two results differ in a row that counts."""
    return bool((((one - other).abs() > most) & counts).any())


def _few(asked: Asked, rows: list[int]) -> Asked:
    """The call for some of its queries, with little rounding and without chance."""
    exact = torch.float64 if asked.query.dtype == torch.float64 else torch.float32
    mask, bias = asked.mask, asked.terms.get("position_bias")
    if isinstance(mask, LazyMask) and mask.told is not None:
        mask = mask.rows(rows)
    elif mask is not None and mask.shape[-2] > 1:
        mask = mask[..., rows, :]
    terms = asked.terms | {"dropout": 0.0}
    if bias is not None:
        terms["position_bias"] = bias[..., rows, :] if bias.shape[-2] > 1 else bias
    sides = (asked.query[:, :, rows], asked.key, asked.value)
    query, key, value = (side.detach().to(exact) for side in sides)
    return Asked(asked.own, asked.module, query, key, value, mask, terms)


def _plain(
    few: Asked, tapped: Tapped, rows: list[int]
) -> tuple[Float[Tensor, "batch head row key"], Tensor]:
    """The weights of some rows as the call says, and whether a row sees anything."""
    scoring, keys = tapped.scoring, tapped.key.shape[2]
    assert scoring is not None
    groups = few.query.shape[1] // few.key.shape[1]
    scale = few.query.shape[3] ** -0.5 if scoring.scale is None else scoring.scale
    scores = few.query @ few.key[:, :, :keys].repeat_interleave(groups, dim=1).mT * scale
    if scoring.softcap is not None:
        scores = (scores / scoring.softcap).tanh() * scoring.softcap
    for place, row in enumerate(rows):
        area = Area(range(row, row + 1), range(keys), scoring.offset, scores.device)
        own = scores[:, :, place : place + 1]
        if scoring.bias is not None:
            own += scoring.bias.cut(area).to(own)
        if scoring.mask is not None:
            own.masked_fill_(~scoring.mask.cut(area), float("-inf"))
    sees = (scores > float("-inf")).any(dim=-1, keepdim=True)
    if scoring.sink is not None:
        sink = scoring.sink.to(scores)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], dim=-1)
    return scores.softmax(dim=-1)[..., :keys].nan_to_num(), sees
