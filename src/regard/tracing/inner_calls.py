"""Functions of torch inside which attention is called: run so that a watcher sees the inner calls.

torch disables a function mode while it runs one function for it. `F.multi_head_attention_forward`
and the tensor subclasses that run torch functions themselves call attention inside, so the mode is
entered again for them. Two further ways to run a function are those of a watcher that sees nothing.
"""

import functools
import types
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.tracker import OriginTracker
from regard.tracing.mask_reading.lazy import LazyMask
from regard.tracing.readable import is_tracing
from regard.tracing.recording.manual_product import ManualProducts
from regard.tracing.recording.nested import is_nested

NOT_FOLLOWED = (
    "torch's multi-head attention runs here with keys that were rearranged, so that its weights "
    "could not be followed to its values"
)


@runtime_checkable
class MultiHeadWatcher(Protocol):
    """A watcher as far as torch's own multi-head attention is concerned."""

    products: ManualProducts
    tracker: OriginTracker
    attended: dict[str, None]  # the sites that attended, in a map or a gap

    def note_unmapped(self, reason: str) -> None:
        """Note a gap where a function attends now that cannot be mapped."""

    def begin_multi_head(self, query: Tensor, heads: int) -> None:
        """Note what the function folds together while it runs."""

    def end_multi_head(self) -> None:
        """Forget it again."""


def run_by_subclass(
    mode: TorchFunctionMode,
    function: Any,
    subclasses: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Let a tensor subclass among the arguments run a function that attends.

    `torch.nn.attention.bias.CausalBias`, for instance, holds no numbers: only its class knows which
    mask it stands for, and calls the function again with plain tensors. `mode`, which torch has
    called and disables meanwhile, sees that call. NotImplemented if no subclass takes the call.
    """
    if not torch._C._is_torch_function_enabled():  # the subclass calls it for its own tensor
        return NotImplemented
    if is_nested(args[0] if args else kwargs.get("query")):  # described padded
        return NotImplemented
    for kind in subclasses:
        if issubclass(kind, LazyMask) or not issubclass(kind, Tensor):
            continue  # a mask of ours is described by its facts
        with mode:
            result = kind.__torch_function__(function, subclasses, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def run_multi_head(
    mode: TorchFunctionMode,
    watchers: Sequence[MultiHeadWatcher],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run torch's own multi-head attention, and return the edited weights if it was edited.

    `mode` is what torch has called: it disables a mode inside itself, and the calls inside are to
    be seen.
    """
    sides = [*args[:3], *(kwargs[name] for name in ("query", "key", "value")[len(args) :])]
    query = sides[0]
    heads = args[4] if len(args) > 4 else kwargs["num_heads"]
    for watcher in watchers:
        watcher.attended.pop(watcher.tracker.sites.here, None)
        watcher.begin_multi_head(query, heads)
    try:
        with ExitStack() as stack:
            for watcher in watchers:
                stack.enter_context(watcher.tracker.tokens_first(sides))
            with mode:
                context, weights = _multi_head_function()(*args, **kwargs)
    finally:
        for watcher in watchers:
            watcher.end_multi_head()
    for watcher in watchers:
        watcher.tracker.follow_multi_head(query, context)
        # this function attends for sure, so what was not recognised inside is a gap
        if watcher.tracker.sites.here not in watcher.attended and not is_backward():
            watcher.note_unmapped(NOT_FOLLOWED)
    all_edited = (watcher.products.edited_weights for watcher in watchers)
    edited = next((edited for edited in all_edited if edited is not None), None)
    if weights is not None and edited is not None:
        averaged = weights.numel() < edited.numel()
        weights = (edited.mean(dim=1) if averaged else edited).reshape(weights.shape)
    return context, weights


@functools.cache
def _multi_head_function() -> Callable[..., Any]:
    """F.multi_head_attention_forward without its check for modes, which would call us again."""
    function = F.multi_head_attention_forward
    scope = function.__globals__ | {"has_torch_function": lambda operands: False}
    copy = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def run_unseen(
    watcher: TorchFunctionMode,
    function: Any,
    types: Any,
    args: tuple[Any, ...] = (),
    kwargs: Any = None,
) -> Any:
    """Run a torch function for a watcher that was stopped."""
    return function(*args, **kwargs or {})


def run_symbolic(
    watcher: Any, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """Run a torch function in a run with symbolic sizes; after its end, as ever."""
    if is_tracing():
        return function(*args, **kwargs or {})
    watcher.resume()
    return watcher.__torch_function__(function, types, args, kwargs)
