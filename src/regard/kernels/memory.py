"""Whether C++ may read and write the memory of a tensor.

A native function gets addresses, so nothing that torch keeps beside the numbers reaches it. Some
tensors have no numbers at an address at all (FakeTensor, meta, the wrappers of torch.func), and
some places record or replace the operations on tensors (make_fx, FakeTensorMode, torch.jit.trace,
forward-mode derivatives), where a native call would go unseen. `has_plain_memory` is False for all
of these, and callers take their portable way. `resolve` gives a tensor whose memory holds its
numbers: that of a lazily negated one, such as the imaginary part of a conjugate, holds others.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

# A subclass may keep its numbers anywhere, or follow what is done with them.
_PLAIN_TYPES = frozenset((Tensor, nn.Parameter, nn.Buffer))


def has_plain_memory(*tensors: Tensor | None) -> bool:
    """True if native code may use the addresses of all these tensors (None is skipped).

    >>> import torch
    >>> from regard.kernels.memory import has_plain_memory
    >>> has_plain_memory(torch.zeros(3)), has_plain_memory(torch.zeros(3, device="meta"))
    (True, False)
    """
    if operations_are_followed():
        return False
    return all(map(_is_plain, tensors))


def inside_transform() -> bool:
    """True inside torch.vmap, torch.func.grad and the other transforms of torch.func."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def is_batched(tensor: Tensor) -> bool:
    """True for a tensor whose batch axis torch.vmap hides."""
    return bool(torch._C._functorch.is_batchedtensor(tensor))


def is_wrapped(tensor: Tensor) -> bool:
    """True for a tensor that a transform of torch.func follows."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def fake_mode_of(tensor: Tensor) -> AbstractContextManager[object]:
    """The FakeTensorMode of a fake tensor, in which new tensors are fake too; else no context."""
    mode: AbstractContextManager[object] | None = getattr(tensor, "fake_mode", None)
    return nullcontext() if mode is None else mode


def resolve(tensor: Tensor) -> Tensor:
    """The tensor without gradient and without a negation that is still to be done.

    >>> import torch
    >>> from regard.kernels.memory import resolve
    >>> negated = torch.complex(torch.zeros(2), torch.ones(2)).conj().imag
    >>> negated.is_neg(), resolve(negated).is_neg()
    (True, False)
    """
    tensor = tensor.detach()
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def operations_are_followed() -> bool:
    """True inside a torch dispatch mode, torch.jit.trace or a level of forward-mode derivatives."""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
    )


def _is_plain(tensor: Tensor | None) -> bool:
    """True if the tensor is of torch's own type and has its numbers at its address, or is None."""
    if tensor is None:
        return True
    if type(tensor) not in _PLAIN_TYPES:
        return False
    try:
        address = tensor.data_ptr()
    except RuntimeError:  # sparse tensors, and those that a transform of torch.func follows
        return False
    # The address 0 is that of meta and functional tensors, and of storage that was freed, such as
    # that of a sharded parameter; but empty tensors may have it too.
    return address != 0 or (tensor.numel() == 0 and not tensor.is_meta)
