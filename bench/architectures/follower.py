"""Follows the modules of a model while it runs, and the operations that mix or multiply in them.

A `PlainRun` keeps what `mixing.py` compares a changed run with: the inputs and outputs of modules
that can be judged, and signatures of everything else.
"""

import copy
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map_only

from bench.architectures.positions import Positions, Signature, perturb_inputs, sign
from bench.architectures.tensors import flatten_tensors

__all__ = [
    "AVERAGES",
    "MATRIX_PRODUCTS",
    "PRODUCTS",
    "Call",
    "Follower",
    "Frame",
    "Key",
    "Operation",
    "PlainRun",
    "is_of_torch",
    "sign_all",
]

Key = tuple[str, int]  # the path of a module and the number of its call

AVERAGES = ("mean", "var", "std", "amax", "amin", "norm", "pool")
_OTHER_MIXING = (
    *AVERAGES, "conv", "lstm", "gru", "rnn", "fft", "upsample", "grid_sampler", "unfold",
    "im2col", "col2im", "roll", "sort", "flip",
)  # fmt: skip
MATRIX_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm", "mv", "dot")
PRODUCTS = (*MATRIX_PRODUCTS, "mul", "mul_", "addcmul", "addcmul_", "lerp")


@dataclass(frozen=True)
class Operation:
    """An operation that mixes, or multiplies: its name, and what its tensors were."""

    name: str
    inputs: list[Signature]
    output: Signature


@dataclass
class Call:
    """One call of a module in the plain run; `inputs` are kept only of modules that are judged."""

    inputs: tuple[Any, Any] | None = None
    certain: bool = False
    outputs: Any = None
    signed_inputs: list[Signature] = field(default_factory=list)
    signed_outputs: list[Signature] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)


@dataclass
class Frame:
    """A call that runs now: where its input was changed, and what the operations showed."""

    key: Key
    call: Call
    before: Positions = field(default_factory=dict)
    certain: bool = True
    explained: Positions = field(default_factory=dict)
    operations: int = 0
    depends_on_content: bool = False
    joins_contents: bool = False


class Follower(TorchDispatchMode):
    """Follows the modules that run, and the operations in them that mix or multiply."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._modules = dict(model.named_modules())
        self._stack: list[Frame] = []
        self._counts: dict[str, int] = defaultdict(int)
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        """Begin to follow modules and operations."""
        self._fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        for path, module in self._modules.items():
            enter = partial(self._call_quietly, self._enter, path)
            leave = partial(self._call_quietly, self._leave, path)
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
        """Run an operation, and note it if it mixes or multiplies."""
        name = function.overloadpacket.__name__
        if not self._is_inside_judged() or not _is_noted(name, args):
            return function(*args, **(kwargs or {}))
        inputs = [sign(tensor) for tensor in flatten_tensors(args)]  # before it writes in place
        output = function(*args, **(kwargs or {}))
        tensors = flatten_tensors(output)
        if tensors:
            self._note(Operation(name, inputs, sign(tensors[0])))
        return output

    def _is_inside_judged(self) -> bool:
        """True while a module runs that may be reported: elsewhere nothing is compared."""
        return any(frame.call.certain for frame in self._stack)

    def _call_quietly(self, act: Callable[..., Any], *args: Any) -> Any:
        """Call a hook without following the operations that it runs itself."""
        with _disable_current_modes():
            return act(*args)

    def _copy(self, value: Any) -> Any:
        """A nested value with copies of its tensors, and of caches and other objects with a state.

        Modules of the model are shared.
        """
        try:
            return copy.deepcopy(value, {id(module): module for module in self._modules.values()})
        except Exception:  # objects that cannot be copied are shared
            return tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), value)

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

    def _note(self, operation: Operation) -> None:
        """Called after an operation that mixes or multiplies."""
        raise NotImplementedError


class PlainRun(Follower):
    """Keeps what every module and operation got and gave."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.calls: dict[Key, Call] = {}
        self.sizes: set[int] = set()  # of the axes of positions

    def _enter(self, path: str, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Keep the inputs of a module."""
        call = Call()
        frame = Frame(self._next_key(path), call)
        self.calls[frame.key] = call
        self._stack.append(frame)
        if is_of_torch(module):
            return
        inputs = self._copy((args, kwargs))
        positions, certain = perturb_inputs(self._copy(inputs))
        if positions:
            call.inputs, call.certain = inputs, certain
        if certain:
            self.sizes |= positions.keys()
        if self._is_inside_judged():
            call.signed_inputs = sign_all((args, kwargs))

    def _leave(self, path: str, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """Keep the outputs of a module."""
        if not is_of_torch(module) and self._is_inside_judged():
            self._stack[-1].call.signed_outputs = sign_all(output)
        call = self._stack.pop().call
        if call.inputs is not None:
            call.outputs = self._copy(output)

    def drop_unknown(self) -> None:
        """Judge no module of which nobody knows where its positions are."""
        for call in self.calls.values():
            if call.inputs is not None and not call.certain:
                positions, _ = perturb_inputs(self._copy(call.inputs), sizes=self.sizes)
                call.inputs = call.inputs if positions else None

    def _note(self, operation: Operation) -> None:
        """Keep the signatures of an operation."""
        self._stack[-1].call.operations.append(operation)


def _is_noted(name: str, args: tuple[Any, ...]) -> bool:
    """True for an operation that mixes positions by other means, and for a product."""
    if name in PRODUCTS:
        return sum(isinstance(arg, Tensor) for arg in args) >= 2
    return any(part in name for part in _OTHER_MIXING)


def is_of_torch(module: nn.Module) -> bool:
    """True for a module of torch itself, such as a linear map or a convolution."""
    return type(module).__module__.startswith("torch.nn")


def sign_all(value: Any) -> list[Signature]:
    """The signatures of all tensors of a nested value."""
    return [sign(tensor) for tensor in flatten_tensors(value)]
