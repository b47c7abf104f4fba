"""Describes a model's own plain attention ("eager" in transformers) as one call, once verified.

The function takes (module, query, key, value, mask, scaling, ...) and returns context and weights.
What its arguments seem to mean is checked on a few rows at every call of more than one query.
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
from regard.tracing.mask_reading.lazy import LazyMask, LazyTensor, TensorRecipe
from regard.tracing.readable import are_readable
from regard.tracing.recording.sdpa import describe_sdpa_arguments

TOLERANCE = 1e-4  # how far apart weights may be that were rounded differently
AttentionFunction = Callable[..., Any]

# which functions of which modules did what their arguments say, and whether they return weights
_verified: weakref.WeakKeyDictionary[nn.Module, dict[AttentionFunction, bool]] = (
    weakref.WeakKeyDictionary()
)


@dataclass(frozen=True, eq=False)
class EagerCall:
    """The arguments of one call of a model's attention function."""

    function: AttentionFunction
    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: dict[str, Any]

    def run(self) -> Any:
        """What the model's own function returns."""
        sides = (self.query, self.key, self.value)
        return self.function(self.module, *sides, self.mask, **self.options)


def describe_when_called(function: AttentionFunction) -> AttentionFunction:
    """The attention function, whose calls are described where their arguments say what it does."""

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        *args: Any,
        **options: Any,
    ) -> Any:
        if args or not isinstance(module, nn.Module) or not are_readable((query, key, value)):
            return function(module, query, key, value, attention_mask, *args, **options)
        call = EagerCall(function, module, query, key, value, attention_mask, options)
        tapped = _describe_verified(call)
        return call.run() if tapped is None else _attend(tapped, call)

    return attention


def _attend(tapped: Tapped, call: EagerCall) -> Any:
    """The function's own result; this is a registered tap, so a watcher sees the call here."""
    if torch.overrides.has_torch_function((tapped.query,)):
        return torch.overrides.handle_torch_function(_attend, (tapped.query,), tapped, call)
    return call.run()


register_tap(_attend, lambda tapped, call: tapped)


def _describe_verified(call: EagerCall) -> Tapped | None:
    """The description of a call; None if weights are wanted or the function does otherwise."""
    config = getattr(call.module, "config", None)
    if call.options.get("output_attentions") or getattr(config, "output_attentions", False):
        return None
    try:
        tapped = _describe(call)
        returns_weights = None if tapped is None else _verify(call, tapped)
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError, RegardError):
        return None  # the arguments mean something else than in transformers' own models
    if tapped is None or returns_weights is None:
        return None

    def finish(context: Tensor) -> tuple[Tensor, Tensor | None]:
        weights = _lazy_weights(call) if returns_weights else None
        return context.transpose(1, 2).contiguous(), weights

    dropout = float(call.options.get("dropout") or 0.0) if call.module.training else 0.0
    return replace(tapped, finish=finish, dropout=dropout)


def _lazy_weights(call: EagerCall) -> Tensor:
    """The weights that the function would return, computed only when they are read."""
    query, keys = call.query, call.key.shape[2]
    recipe = TensorRecipe(lambda: call.run()[1])
    return LazyTensor(recipe, (*query.shape[:3], keys), query.dtype, query.device)


def _describe(call: EagerCall) -> Tapped | None:
    """What the arguments seem to mean; None if they do not have the shapes of attention."""
    query, key, mask, options = call.query, call.key, call.mask, call.options
    if not query.dim() == key.dim() == call.value.dim() == 4 or query.shape[1] % key.shape[1]:
        return None
    if mask is not None and mask.shape[-1] > key.shape[2]:
        mask = mask[..., : key.shape[2]]
    tapped = describe_sdpa_arguments(query, key, call.value, mask, scale=options.get("scaling"))
    scoring, bias, sink = tapped.scoring, options.get("position_bias"), options.get("s_aux")
    if scoring is None:
        return _take_own_weights(call, tapped)
    if bias is not None:
        added = tensor_bias(bias[..., : tapped.key.shape[2]])
        scoring = replace(scoring, bias=added if scoring.bias is None else scoring.bias + added)
    if _hides_whole_rows(mask) and sink is None:
        tapped = replace(tapped, runs_itself=True)
    if sink is not None:  # it takes the whole weight of a row whose keys are all hidden
        sink, tapped = sink.reshape(-1), replace(tapped, levelled_rows=None)
    return replace(tapped, scoring=replace(scoring, softcap=options.get("softcap"), sink=sink))


def _hides_whole_rows(mask: Tensor | None) -> bool:
    """True if minus infinity hides all keys from some query, whose weights are then no numbers."""
    if mask is None or isinstance(mask, LazyMask) or not mask.is_floating_point():
        return False
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return bool((mask.amax(dim=-1) == float("-inf")).any())


def _take_own_weights(call: EagerCall, tapped: Tapped) -> Tapped | None:
    """The description with the weights that the function returns; None if it returns none.

    For rows whose weights no description gives: all their keys are hidden by finite numbers.
    """
    with torch.no_grad(), torch._C.DisableTorchFunction():
        weights = call.run()[1]
    if not isinstance(weights, Tensor) or weights.shape[:3] != call.query.shape[:3]:
        return None
    return replace(tapped, weights=weights[..., : tapped.key.shape[2]])


def _verify(call: EagerCall, tapped: Tapped) -> bool | None:
    """Whether the function returns weights too; None if it does not do what the call says.

    Decoding steps of one query are not checked again: they would pay for it at every token.
    """
    if tapped.scoring is None:  # described by the function's own weights
        return True
    known = _verified.setdefault(call.module, {})
    if call.query.shape[2] == 1 and call.function in known:
        return known[call.function]
    known.pop(call.function, None)
    with torch.no_grad(), torch._C.DisableTorchFunction():
        returns_weights = _compare_rows(call, tapped)
    if returns_weights is not None:
        known[call.function] = returns_weights
    return returns_weights


def _compare_rows(call: EagerCall, tapped: Tapped) -> bool | None:
    """`_verify` by four rows, computed by the function and from its description."""
    queries, keys = call.query.shape[2], tapped.key.shape[2]
    rows = sorted({0, queries // 3, queries * 2 // 3, queries - 1})
    some = _select_rows(call, rows)
    context, weights = some.run()[:2]
    expected, sees_any = _expected_weights(some, tapped, rows)
    groups = some.query.shape[1] // some.key.shape[1]
    values = some.value[:, :, :keys].repeat_interleave(groups, dim=1)
    expected_context = (expected @ values).transpose(1, 2)
    limit = TOLERANCE * max(1.0, float(some.value.abs().max()))
    if context.shape != expected_context.shape:
        return None
    if _differ(context, expected_context, limit, sees_any.transpose(1, 2)):
        return None
    if weights is None:
        return False
    return None if _differ(weights[..., :keys], expected, TOLERANCE, sees_any) else True


def _differ(one: Tensor, other: Tensor, limit: float, counts: Tensor) -> bool:
    """True if two results differ by more than the limit in a row that counts."""
    return bool((((one - other).abs() > limit) & counts).any())


def _select_rows(call: EagerCall, rows: list[int]) -> EagerCall:
    """The call for some of its queries, in at least float32 and without dropout."""
    exact = torch.float64 if call.query.dtype == torch.float64 else torch.float32
    mask, bias = call.mask, call.options.get("position_bias")
    if isinstance(mask, LazyMask) and mask.current_facts is not None:
        mask = mask.rows(rows)
    elif mask is not None and mask.shape[-2] > 1:
        mask = mask[..., rows, :]
    options = call.options | {"dropout": 0.0}
    if bias is not None:
        options["position_bias"] = bias[..., rows, :] if bias.shape[-2] > 1 else bias
    sides = (call.query[:, :, rows], call.key, call.value)
    query, key, value = (side.detach().to(exact) for side in sides)
    return EagerCall(call.function, call.module, query, key, value, mask, options)


def _expected_weights(
    some: EagerCall, tapped: Tapped, rows: list[int]
) -> tuple[Float[Tensor, "batch head row key"], Tensor]:
    """The weights of some rows by the description, and whether each row sees any key."""
    scoring, keys = tapped.scoring, tapped.key.shape[2]
    assert scoring is not None
    groups = some.query.shape[1] // some.key.shape[1]
    scale = some.query.shape[3] ** -0.5 if scoring.scale is None else scoring.scale
    scores = some.query @ some.key[:, :, :keys].repeat_interleave(groups, dim=1).mT * scale
    if scoring.softcap is not None:
        scores = (scores / scoring.softcap).tanh() * scoring.softcap
    for place, row in enumerate(rows):
        area = Area(range(row, row + 1), range(keys), scoring.offset, scores.device)
        row_scores = scores[:, :, place : place + 1]
        if scoring.bias is not None:
            row_scores += scoring.bias.cut(area).to(row_scores)
        if scoring.mask is not None:
            row_scores.masked_fill_(~scoring.mask.cut(area), float("-inf"))
    sees_any = (scores > float("-inf")).any(dim=-1, keepdim=True)
    if scoring.sink is not None:
        sink = scoring.sink.to(scores)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sink], dim=-1)
    return scores.softmax(dim=-1)[..., :keys].nan_to_num(), sees_any
