"""Whether the numbers of tensors can be read where a model runs now.

Some tensors have no numbers: fake ones and those on the meta device have a shape only. Others must
not be read: inside a transform of torch.func they stand for many examples or for a derivative, and
make_fx and torch.jit.trace write down every operation, also those of a watcher. Attention on such
tensors runs as it would without a watcher and becomes a gap of the trace.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

UNREADABLE = (
    "its tensors have no numbers that could be read (fake or meta tensors, torch.func, make_fx or "
    "torch.jit.trace), so it ran unobserved; run the model on plain tensors to see it"
)
_PLAIN_TYPES = frozenset((Tensor, nn.Parameter, nn.Buffer))
_MODES = torch._C._TorchDispatchModeKey
_TRACING_MODES = (_MODES.FAKE, _MODES.PROXY, _MODES.FUNCTIONAL)


def are_readable(tensors: Iterable[Tensor]) -> bool:
    """True if these tensors have numbers, and reading them goes unnoticed.

    >>> import torch
    >>> from regard.tracing.readable import are_readable
    >>> are_readable([torch.zeros(3)]), are_readable([torch.zeros(3, device="meta")])
    (True, False)
    """
    if is_tracing() or torch._C._functorch.maybe_current_level() is not None:
        return False
    return all(_has_numbers(tensor) for tensor in tensors)


def is_tracing() -> bool:
    """True where torch writes down, or replaces, every operation that runs."""
    if torch._C._get_tracing_state() is not None:
        return True
    if not torch._C._len_torch_dispatch_stack():
        return False
    return any(torch._C._get_dispatch_mode(mode) is not None for mode in _TRACING_MODES)


def detach_untraced(tensor: Tensor) -> Tensor:
    """The tensor outside the graph of gradients; itself where the operation would be traced."""
    return tensor if is_tracing() else tensor.detach()


def _has_numbers(tensor: Tensor) -> bool:
    """True if the tensor has numbers of its own."""
    if type(tensor) not in _PLAIN_TYPES:
        # nothing else is asked of a subclass, which may have to make its numbers to answer
        return getattr(tensor, "fake_mode", None) is None
    return not (
        tensor.is_meta
        or torch._is_functional_tensor(tensor)
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )
