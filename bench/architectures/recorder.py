"""An independent record of the attention of a run, made below torch functions.

`Recorder` is a dispatch mode: it sees the operations that torch really runs, after a watcher, torch
functions and their decompositions are done. It knows nothing of `regard`::

    with torch.no_grad(), Recorder(model) as recorder:
        model(**inputs)
    for call in recorder.calls:
        print(call.site, call.operation, call.weights.shape)

Recorded are fused attention (its weights are computed again here, in the plainest form) and every
softmax whose result is multiplied with something along the axis of the softmax: by a matrix
product, or by a broadcast product such as `(weights[..., None] * values).sum(...)`. Weights are
followed through views, copies and element-wise operations by their storage.
"""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from bench.architectures.module_stack import ModuleStack

__all__ = ["RecordedCall", "Recorder"]

_SOFTMAX = ("_softmax", "_safe_softmax")
_PRODUCTS = ("mm", "bmm", "baddbmm", "addmm", "mv")


@dataclass(frozen=True)
class RecordedCall:
    """Weights of one attention: where they were computed and where they were used.

    `weights` have the keys on the axis `axis`, as the softmax returned them. `operand` has the
    weights as they stand in the product with the values, None where nothing changed them.
    """

    site: str
    operation: str
    weights: Tensor
    axis: int = -1
    operand: Tensor | None = None
    product_site: str = ""


@dataclass(frozen=True)
class _Mark:
    """A softmax whose result is followed: its site, result and axis; `used` once it is a call."""

    site: str
    result: Tensor
    axis: int
    used: list[bool]


class Recorder(TorchDispatchMode):
    """Records every softmax that is used in a product, and every fused attention."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.calls: list[RecordedCall] = []
        self._stack = ModuleStack(model)
        self._marks: dict[int, _Mark] = {}
        self._kept: list[Tensor] = []  # a storage that is freed would give its address to another

    def __enter__(self) -> Self:
        """Begin; torch's fused encoder layers are off, because they hide what they compute."""
        self._fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        self._stack.open()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """End, and leave torch as it was."""
        super().__exit__(*error)
        self._stack.close()
        torch.backends.mha.set_fastpath_enabled(self._fast_path)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation and follow the weights in it."""
        kwargs = kwargs or {}
        output = function(*args, **kwargs)
        name = function.overloadpacket.__name__
        if name in _SOFTMAX:
            axis = args[1] % args[0].dim() - args[0].dim()
            self._mark(output, _Mark(self._stack.site, output.detach().clone(), axis, [False]))
        elif "scaled_dot_product" in name and "backward" not in name:
            self._record_fused(name, args, kwargs)
        elif self._marks:
            self._follow(name, args, output)
        return output

    def _mark(self, tensor: Tensor, mark: _Mark) -> None:
        """Follow a tensor that holds weights."""
        self._kept.append(tensor)
        self._marks[_storage(tensor)] = mark

    def _follow(self, name: str, args: tuple[Any, ...], output: Any) -> None:
        """Record a product of weights, or follow what another operation makes of them."""
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return
        for place, tensor in enumerate(args):
            mark = self._marks.get(_storage(tensor)) if isinstance(tensor, Tensor) else None
            if mark is None:
                continue
            if _contracts_keys(name, args, place, mark):
                self._record(name, tensor, mark)
            elif output.numel() == tensor.numel() and _storage(output) not in self._marks:
                self._mark(output, mark)
            return

    def _record(self, name: str, operand: Tensor, mark: _Mark) -> None:
        """Keep the weights of a softmax once, with their form in the first product."""
        if mark.used[0]:
            return
        mark.used[0] = True
        site = self._stack.site
        kept = operand.detach().clone()
        self.calls.append(RecordedCall(mark.site, name, mark.result, mark.axis, kept, site))

    def _record_fused(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compute the weights of a fused attention again."""
        query, key = args[0].double(), args[1].double()
        mask = kwargs.get("attn_mask")
        if mask is None and len(args) > 3 and isinstance(args[3], Tensor):
            mask = args[3]
        causal = kwargs.get("is_causal", False) or any(arg is True for arg in args[4:6])
        if key.shape[-3] != query.shape[-3]:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        scores = query @ key.mT * (kwargs.get("scale") or query.shape[-1] ** -0.5)
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, float("-inf"))
        elif mask is not None:
            scores = scores + mask.double()
        weights = scores.softmax(-1).nan_to_num(0)
        site = self._stack.site
        self.calls.append(RecordedCall(site, name, weights, product_site=site))


def _storage(tensor: Tensor) -> int:
    """The identity of the memory that a tensor is a view of."""
    return int(tensor.untyped_storage()._cdata)


def _contracts_keys(name: str, args: tuple[Any, ...], place: int, mark: _Mark) -> bool:
    """True if an operation multiplies weights with something along their keys.

    A product along another axis, such as a mixture of heads, gives new weights.
    """
    tensor, keys = args[place], mark.result.shape[mark.axis]
    if name in _PRODUCTS:
        operands = [position for position, arg in enumerate(args) if isinstance(arg, Tensor)]
        contracted = tensor.shape[-2 if place == operands[-1] and tensor.dim() > 1 else -1]
        # a key without a token (a sink) may have been cut off after the softmax
        return keys - 1 <= contracted <= keys and keys > 1
    others = [arg for arg in args if isinstance(arg, Tensor) and arg is not tensor]
    if name not in ("mul", "mul_") or not others or keys < 2:
        return False
    return _spreads_over_features(tensor, others[0], keys)


def _spreads_over_features(weights: Tensor, values: Tensor, keys: int) -> bool:
    """True if weights are broadcast over features of values that have the same keys."""
    size = max(weights.dim(), values.dim())
    left = (1,) * (size - weights.dim()) + tuple(weights.shape)
    right = (1,) * (size - values.dim()) + tuple(values.shape)
    pairs = list(zip(left, right, strict=True))
    broadcast = any(mine == 1 and other > 1 for mine, other in pairs)
    return broadcast and any(mine == other == keys for mine, other in pairs)
