"""torch's own encoder leaves padding out in its fast path; watched, it gives what it gave there."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def as_if_nested(encoders: Iterable[nn.TransformerEncoder]) -> Iterator[None]:
    """Let the encoders give, for padding, what their fast path gives: nothing.

    Without a watcher `nn.TransformerEncoder` runs on a nested tensor where it may, and fills
    padding up with zeros before its last norm. A watcher makes it leave that path.
    """
    handles = [each.register_forward_hook(_emptied, with_kwargs=True) for each in encoders]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _emptied(
    encoder: nn.TransformerEncoder, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Tensor | None:
    """The output with padding as the fast path leaves it; None where that path is not taken."""
    given = dict(zip(("src", "mask", "src_key_padding_mask"), args, strict=False)) | kwargs
    source, hidden = given["src"], given.get("src_key_padding_mask")
    if hidden is None or given.get("mask") is not None or not _is_fast(encoder, source):
        return None
    padding = hidden if hidden.dtype == torch.bool else hidden != 0
    checks = getattr(encoder, "mask_check", True)
    if checks and not torch._nested_tensor_from_mask_left_aligned(source, ~padding):
        return None
    nothing = torch.zeros_like(output[:1, :1])
    if encoder.norm is not None:
        nothing = encoder.norm(nothing)
    return torch.where(padding[..., None], nothing, output)


def _is_fast(encoder: nn.TransformerEncoder, source: Tensor) -> bool:
    """Whether the encoder would run on a nested tensor, by its own conditions."""
    first = encoder.layers[0]
    allowed = torch.backends.mha.get_fastpath_enabled() and getattr(
        encoder, "use_nested_tensor", False
    )
    differentiates = torch.is_grad_enabled() and any(
        each.requires_grad for each in (source, *first.parameters())
    )
    return (
        allowed
        and not first.training
        and source.dim() == 3
        and not source.is_nested
        and not torch.is_autocast_enabled()
        and source.device.type in ("cpu", "cuda", "xpu")
        and not differentiates
    )
