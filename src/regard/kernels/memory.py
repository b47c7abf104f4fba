"""Whether C++ may read and write the memory of a tensor.

A native function gets addresses, so nothing that torch keeps beside the numbers reaches it. Some
tensors have no numbers at an address at all (FakeTensor, meta, the wrappers of torch.func), and
some places record or replace the operations on tensors (make_fx, FakeTensorMode, torch.jit.trace,
forward-mode derivatives), where a native call would go unseen. `has_plain_memory` is False for all
of these, and callers take their portable way. `resolve` gives a tensor whose memory holds its
numbers: that of a lazily negated or conjugated one holds others.
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
    if _operations_are_followed():
        return False
    return all(tensor is None or _is_plain(tensor) for tensor in tensors)


def is_wrapped(tensor: Tensor) -> bool:
    """True for a tensor inside torch.vmap, torch.func.grad and other transforms of torch.func."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def fake_mode_of(tensor: Tensor) -> AbstractContextManager[object]:
    """The FakeTensorMode of a fake tensor, in which new tensors are fake too; else no context."""
    mode: AbstractContextManager[object] | None = getattr(tensor, "fake_mode", None)
    return nullcontext() if mode is None else mode


def resolve(tensor: Tensor) -> Tensor:
    """The tensor without gradient and without a negation or conjugation that is still to be done.

    >>> import torch
    >>> from regard.kernels.memory import resolve
    >>> negated = torch.complex(torch.zeros(2), torch.ones(2)).conj().imag
    >>> negated.is_neg(), resolve(negated).is_neg()
    (True, False)
    """
    return tensor.detach().resolve_conj().resolve_neg()


def _operations_are_followed() -> bool:
    """True inside a torch dispatch mode, torch.jit.trace or a level of forward-mode derivatives."""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
    )


def _is_plain(tensor: Tensor) -> bool:
    """True if the tensor is of torch's own type and has its numbers at its address."""
    if type(tensor) not in _PLAIN_TYPES or tensor.layout is not torch.strided:
        return False
    if is_wrapped(tensor) or torch._is_functional_tensor(tensor) or tensor._is_zerotensor():
        return False
    # Storage that was freed, such as that of a sharded parameter, has the address 0.
    return not tensor.is_meta and (tensor.data_ptr() != 0 or tensor.numel() == 0)
