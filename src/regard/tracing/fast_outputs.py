"""With `beside=True`, modules of torch that have a fast path return what that path returns.

`nn.MultiheadAttention`, `nn.TransformerEncoderLayer` and `nn.TransformerEncoder` call one fused
operation where nothing is trained, and leave that path when a function mode is there, as while
they are watched. The two ways differ by rounding, about 1e-7 of the output. So after such a module
has run and was observed, its forward runs a second time, unseen and without our hooks, and the
result of the second run is its output: bit for bit what it would have returned unwatched.

Only the outermost of these modules runs again, and only where the fast path can be taken: in
evaluation mode and without gradients. There is no dropout there, so nothing is drawn twice.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.tracing.dataflow.origins import copy_origins, tensors_in
from regard.tracing.readable import are_readable
from regard.tracing.sites import OWN_HOOKS, running

_KINDS = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerEncoder)
_PLAIN_TYPES = frozenset((Tensor, nn.Parameter, nn.Buffer))


@contextmanager
def return_fast_outputs(model: nn.Module, only_watchers: Callable[[], bool]) -> Iterator[None]:
    """Let modules with a fast path return its result while the block runs.

    `only_watchers` says whether watchers are the only function modes of the thread. Any other mode,
    such as that of `torch.device`, makes the modules leave the fast path unwatched, too.
    """
    handles = list[RemovableHandle]()

    def run_again(module: nn.Module, args: tuple[Any, ...], kwargs: Any, output: Any) -> Any:
        return _run_again(module, args, kwargs, output) if only_watchers() else None

    try:
        for module in model.modules():
            if _has_fast_path(module):
                # before the caller's own hooks, which get what they would get unwatched
                handle = module.register_forward_hook(run_again, with_kwargs=True, prepend=True)
                handles.append(handle)
                OWN_HOOKS.add(handle.id)
        yield
    finally:
        for handle in handles:
            handle.remove()
            OWN_HOOKS.discard(handle.id)


def _has_fast_path(module: nn.Module) -> bool:
    """True for a module of torch's own; a subclass with another forward may do anything twice."""
    return any(isinstance(module, kind) and type(module).forward is kind.forward for kind in _KINDS)


def _run_again(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    """The output of the module's forward, run as if nobody watched; None if it is the same."""
    tensors = [*tensors_in((*args, *kwargs.values()))]
    if not (_may_be_fast(module, tensors) and are_readable(tensors) and _is_outermost(module)):
        return None
    with _without_own_hooks(module), torch._C.DisableTorchFunction():
        fast = module.forward(*args, **kwargs)
    for old, new in zip(tensors_in((output,)), tensors_in((fast,)), strict=False):
        copy_origins(old, new)
    return fast


def _may_be_fast(module: nn.Module, inputs: Iterable[Tensor]) -> bool:
    """True if the fast path can be taken, by those of torch's conditions that are cheap."""
    if (
        module.training
        or torch.is_autocast_enabled()
        or not torch.backends.mha.get_fastpath_enabled()
    ):
        return False
    tensors = [*inputs, *module.parameters()]
    if any(type(tensor) not in _PLAIN_TYPES for tensor in tensors):
        return False
    return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


def _is_outermost(module: nn.Module) -> bool:
    """True if no module around this one runs again too, and this one can."""
    if not _can_run_again(module):
        return False
    around = (other for other in running() if other is not module and _has_fast_path(other))
    return not any(_can_run_again(other) for other in around)


def _can_run_again(module: nn.Module) -> bool:
    """True if modules inside are torch's own, and no hook of the caller's would run twice."""
    if isinstance(module, nn.TransformerEncoder) and not all(map(_has_fast_path, module.layers)):
        return False
    inside = (inner for inner in module.modules() if inner is not module)
    hooks = (
        hook for inner in inside for hook in (*inner._forward_hooks, *inner._forward_pre_hooks)
    )
    return all(hook in OWN_HOOKS for hook in hooks)


@contextmanager
def _without_own_hooks(module: nn.Module) -> Iterator[None]:
    """Take our hooks off a module and those inside: the fast path is left where there are any."""
    taken = list[tuple[Any, Any]]()
    for inner in module.modules():
        for hooks in (inner._forward_hooks, inner._forward_pre_hooks):
            if any(hook in OWN_HOOKS for hook in hooks):
                taken.append((hooks, hooks.copy()))
                for hook in OWN_HOOKS.intersection(hooks):
                    del hooks[hook]
    try:
        yield
    finally:
        for hooks, before in taken:
            hooks.clear()
            hooks.update(before)
