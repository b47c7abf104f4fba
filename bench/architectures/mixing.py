"""Finds modules that mix positions without a map or a gap: perturb one position and look.

After a plain run, the model runs once for each depth of its modules. In the run for a depth, each
module of that depth gets the inputs of the plain run with one position changed, and afterwards its
outputs are set back, so that modules are judged one by one. A module spreads the change if its
output differs at other positions::

    input  of layers.0.mixer   . . . . . x . . . . .
    output of layers.0.mixer   . . . . . x x x x x x     spreads to all later positions
    output of its convolution  . . . . . x x x x . .     explains three of them

What spreads by other means than attention explains its part of the change: convolution, pooling,
normalisation, recurrent networks, Fourier transforms, and products with a parameter (the weights of
which do not depend on the input). So do modules at or in which there is a map or a gap, and other
modules inside, which are judged themselves. A module whose change is not explained is reported.

The positions are axis 1 of an input (batch position feature), axis 0 of (position feature) and of
(position batch feature).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from bench.architectures.tensors import flatten_tensors

__all__ = ["find_mixing"]

Key = tuple[str, int]  # the path of a module and the number of its call
Positions = dict[int, set[int]]  # the size of an axis -> its indices that changed

_SHORTEST = 3  # an axis of two may be the batch
_OTHER_MIXING = (
    "conv", "pool", "norm", "lstm", "gru", "rnn", "fft", "upsample", "grid_sampler", "mean", "var",
    "std", "unfold", "im2col", "col2im", "roll", "sort", "flip", "amax", "amin",
)  # fmt: skip
_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "linear")


@dataclass
class _Call:
    """One call of a module in the plain run: inputs, outputs, and operations that mix otherwise."""

    inputs: tuple[Any, Any]
    outputs: Any = None
    operations: list[tuple[list[Tensor], list[Tensor]]] = field(default_factory=list)


@dataclass
class _Frame:
    """A call that runs now: where its input was changed, and what explains a change."""

    key: Key
    call: _Call
    before: Positions = field(default_factory=dict)
    explained: Positions = field(default_factory=dict)
    operations: int = 0


def find_mixing(model: nn.Module, run: Callable[[], Any], covered: Iterable[str]) -> list[str]:
    """The paths of modules that spread a change of one position and are not covered.

    `covered` are the paths of maps and gaps.
    """
    plain = _PlainRun(model)
    with torch.no_grad(), plain:
        run()
    reported: set[str] = set()
    sites = tuple({site.partition("#")[0] for site in covered})
    for depth in sorted({_depth(path) for path, _ in plain.calls}):
        changed = _ChangedRun(model, plain.calls, depth, sites)
        with torch.no_grad(), changed:
            run()
        reported |= changed.reported
    return sorted(reported)


class _Follower(TorchDispatchMode):
    """Follows the modules that run, and the operations in them that mix by other means."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._modules = dict(model.named_modules())
        tensors = [*model.parameters(), *model.buffers()]
        self._parameters = {tensor.untyped_storage()._cdata for tensor in tensors}
        self._stack: list[_Frame] = []
        self._counts: dict[str, int] = defaultdict(int)
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        """Begin to follow modules and operations."""
        self._fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        for path, module in self._modules.items():
            enter, leave = partial(self._enter, path), partial(self._leave, path)
            self._handles += [
                module.register_forward_pre_hook(enter, with_kwargs=True),
                module.register_forward_hook(leave, with_kwargs=True),
            ]
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        """Remove the hooks."""
        super().__exit__(*error)
        for handle in self._handles:
            handle.remove()
        torch.backends.mha.set_fastpath_enabled(self._fast_path)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation, and note it if it mixes positions by other means than attention."""
        output = function(*args, **(kwargs or {}))
        if self._stack and self._is_other_mixing(function.overloadpacket.__name__, args):
            self._note(flatten_tensors(args), flatten_tensors(output))
        return output

    def _is_other_mixing(self, name: str, args: tuple[Any, ...]) -> bool:
        """True for an operation that mixes positions but is no attention."""
        if any(part in name for part in _OTHER_MIXING):
            return True
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        return name in _PRODUCTS and any(
            tensor.untyped_storage()._cdata in self._parameters for tensor in tensors
        )

    def _next_key(self, path: str) -> Key:
        """The path of a module with the number of this call of it."""
        self._counts[path] += 1
        return path, self._counts[path]

    def _enter(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Called before a module runs."""
        raise NotImplementedError

    def _leave(self, path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        """Called after a module has run."""
        raise NotImplementedError

    def _note(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Note an operation that mixes positions by other means than attention."""
        raise NotImplementedError


class _PlainRun(_Follower):
    """Keeps the inputs and outputs of every call of a module."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.calls: dict[Key, _Call] = {}

    def _enter(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Keep the inputs."""
        frame = _Frame(self._next_key(path), _Call(_copy((args, kwargs))))
        self.calls[frame.key] = frame.call
        self._stack.append(frame)

    def _leave(self, path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Keep the outputs."""
        self._stack.pop().call.outputs = _copy(output)

    def _note(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Keep the tensors of an operation."""
        self._stack[-1].call.operations.append((_copy(inputs), _copy(outputs)))


class _ChangedRun(_Follower):
    """Changes the input of every module of one depth, and reports those that spread the change."""

    def __init__(
        self, model: nn.Module, plain: dict[Key, _Call], depth: int, covered: tuple[str, ...]
    ) -> None:
        super().__init__(model)
        self.reported: set[str] = set()
        self._root = type(model).__name__
        self._plain, self._depth, self._covered = plain, depth, covered

    def _enter(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Change the inputs of a module that is judged; measure the change at one inside it."""
        key = self._next_key(path)
        call = self._plain.get(key)
        if call is None:
            self._stack.append(_Frame(key, _Call(((), {}))))
            return None
        frame = _Frame(key, call)
        self._stack.append(frame)
        if not self._is_judged(path, module):
            frame.before = _changes((args, kwargs), call.inputs)
            return None
        inputs = _copy(call.inputs)
        place = _change_position(inputs)
        if place is None:
            return None
        frame.before = {place[0]: {place[1]}}
        return inputs

    def _leave(self, path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        """Report a module whose output changed without an explanation, and set it back."""
        frame = self._stack.pop()
        after = _changes(output, frame.call.outputs)
        if not self._is_judged(path, module):
            if self._stack:
                _add_new(self._stack[-1].explained, frame.before, after)
                _add_new(self._stack[-1].explained, {}, frame.explained)
            return None
        if _spreads(frame, after) and not self._is_covered(path):
            self.reported.add(path or self._root)
        return _copy(frame.call.outputs)

    def _note(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Count what an operation spreads as explained."""
        frame = self._stack[-1]
        if frame.operations < len(frame.call.operations):
            former_inputs, former_outputs = frame.call.operations[frame.operations]
            before, after = _changes(inputs, former_inputs), _changes(outputs, former_outputs)
            _add_new(frame.explained, before, after)
        frame.operations += 1

    def _is_judged(self, path: str, module: nn.Module) -> bool:
        """True for a module of the depth of this run that is not one of torch."""
        return _depth(path) == self._depth and not type(module).__module__.startswith("torch.nn")

    def _is_covered(self, path: str) -> bool:
        """True if a map or a gap is at the module, inside it, or a gap around it."""
        path = path or self._root
        return any(site == path or site.startswith(f"{path}.") for site in self._covered)


def _depth(path: str) -> int:
    """How many modules are around a module."""
    return path.count(".") + 1 if path else 0


def _copy(value: Any) -> Any:
    """A nested value with copies of its tensors."""
    return tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), value)


def _change_position(inputs: Any) -> tuple[int, int] | None:
    """Change one position of the first floating-point input; the size of its axis and the index."""
    for tensor in flatten_tensors(inputs):
        if not tensor.is_floating_point() or tensor.dim() not in (2, 3):
            continue
        axis = 1 if tensor.dim() == 3 and tensor.shape[1] >= _SHORTEST else 0
        size = tensor.shape[axis]
        if size < _SHORTEST:
            continue
        place = size // 2
        part = tensor.select(axis, place)
        part.add_(torch.linspace(0.5, 1.5, part.numel()).reshape(part.shape).to(part))
        return size, place
    return None


def _changes(value: Any, former: Any) -> Positions:
    """The positions at which the tensors of two nested values differ."""
    positions: Positions = {}
    for tensor, other in zip(flatten_tensors(value), flatten_tensors(former), strict=False):
        if tensor.shape == other.shape:
            for size, indices in _changed_positions(tensor.detach(), other).items():
                positions.setdefault(size, set()).update(indices)
    return positions


def _changed_positions(tensor: Tensor, former: Tensor) -> Positions:
    """The indices along each axis at which two tensors differ."""
    if tensor.is_floating_point() or tensor.is_complex():
        difference = (tensor - former).abs()
        changed = ~(difference <= 1e-6 * max(1.0, float(former.abs().nan_to_num(0).max())))
        changed &= ~(tensor.isnan() & former.isnan()) & (tensor != former)
    else:
        changed = tensor != former
    positions: Positions = {}
    for axis, size in enumerate(tensor.shape):
        if size >= _SHORTEST and tensor.numel():
            rows = changed.movedim(axis, 0).reshape(size, -1).any(1)
            positions.setdefault(size, set()).update(rows.nonzero().flatten().tolist())
    return positions


def _spreads(frame: _Frame, after: Positions) -> bool:
    """True if the output changed at positions that neither input nor known mixing explains."""
    return any(
        after.get(size, set()) - before - frame.explained.get(size, set())
        for size, before in frame.before.items()
    )


def _add_new(positions: Positions, before: Positions, after: Positions) -> None:
    """Add the positions to which a change has spread."""
    for size, indices in after.items():
        positions.setdefault(size, set()).update(indices - before.get(size, set()))
