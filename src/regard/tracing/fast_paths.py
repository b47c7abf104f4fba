"""Turns off two fast paths of torch while a model is watched, because calls inside are hidden.

Compiled functions run eagerly, as they were written. `nn.TransformerEncoder`, which would run on a
nested tensor without padding, leaves that path by itself; its output is made equal to that path's
up to rounding (`fast_outputs.py` makes it equal bit for bit, for `beside=True`).
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from regard.tracing.readable import are_readable
from regard.tracing.sites import OWN_HOOKS


class _EagerStance:
    """Counts the watchers that want compiled functions to run eagerly.

    The stance of torch's compiler belongs to the process, and watchers in several threads do not
    end in the order in which they began. If each put back what it had found, the last one could
    leave its stance behind; so it is set by the first and reset after the last.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.watchers = 0
        self.is_set = False
        self.undo = ExitStack()

    def begin(self) -> None:
        with self.lock:
            self.watchers += 1
            if "torch._dynamo" in sys.modules:
                self.set()
            elif self.watchers == 1:
                self._set_at_first_compile()

    def end(self) -> None:
        with self.lock:
            self.watchers -= 1
            if not self.watchers:
                self.undo.close()
                self.is_set = False

    def set(self) -> None:
        with self.lock:
            if self.watchers and not self.is_set:
                self.is_set = True
                self.undo.enter_context(torch.compiler.set_stance("force_eager"))

    def _set_at_first_compile(self) -> None:
        original: Any = torch.compile

        def compile_eagerly(*args: Any, **settings: Any) -> Any:
            self.set()
            return original(*args, **settings)

        torch.compile = compile_eagerly
        self.undo.callback(setattr, torch, "compile", original)


_STANCE = _EagerStance()


@contextmanager
def run_compiled_eagerly() -> Iterator[None]:
    """Run compiled functions as they were written while the block runs.

    Setting torch's stance loads its compiler, which takes longer than most of what is watched.
    Where nothing was compiled before, it is set only if something is compiled inside the block.
    """
    _STANCE.begin()
    try:
        yield
    finally:
        _STANCE.end()


@contextmanager
def keep_encoder_padding_empty(encoders: Iterable[nn.TransformerEncoder]) -> Iterator[None]:
    """Let encoders return for padding what their fast path returns while the block runs.

    Without a watcher `nn.TransformerEncoder` runs on a nested tensor where it may, and fills
    padding with zeros before its last norm. A watcher makes it leave that path.
    """
    handles = [
        encoder.register_forward_hook(_empty_padding, with_kwargs=True) for encoder in encoders
    ]
    OWN_HOOKS.update(handle.id for handle in handles)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
            OWN_HOOKS.discard(handle.id)


def _empty_padding(
    encoder: nn.TransformerEncoder, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Tensor | None:
    """The output with padding as the fast path leaves it; None if that path is not taken."""
    names = ("src", "mask", "src_key_padding_mask")
    arguments = dict(zip(names, args, strict=False)) | kwargs
    source, hidden = arguments["src"], arguments.get("src_key_padding_mask")
    if hidden is None or arguments.get("mask") is not None or not _takes_fast_path(encoder, source):
        return None
    if not are_readable((source, hidden)):
        return None
    padding = hidden if hidden.dtype == torch.bool else hidden != 0
    checks = getattr(encoder, "mask_check", True)
    if checks and not torch._nested_tensor_from_mask_left_aligned(source, ~padding):
        return None
    empty = torch.zeros_like(output[:1, :1])
    if encoder.norm is not None:
        empty = encoder.norm(empty)
    return torch.where(padding[..., None], empty, output)


def _takes_fast_path(encoder: nn.TransformerEncoder, source: Tensor) -> bool:
    """True if the encoder would run on a nested tensor, by torch's own conditions."""
    first = encoder.layers[0]
    allowed = torch.backends.mha.get_fastpath_enabled() and getattr(
        encoder, "use_nested_tensor", False
    )
    differentiates = torch.is_grad_enabled() and any(
        tensor.requires_grad for tensor in (source, *first.parameters())
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
