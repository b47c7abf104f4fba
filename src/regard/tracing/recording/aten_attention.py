"""Taps of the operations below scaled_dot_product_attention, for models that call them directly.

A model that was exported by torch.export, or written for one kernel, calls `torch.ops.aten`'s
scaled_dot_product_attention or the flash, memory-efficient, cuDNN or plain kernel below it. These
take the same tensors in another order, and most return the context together with numbers for
their gradient:

    flash, for the CPU   query, key, value, dropout, is_causal           ->  context, logsumexp
    memory-efficient     query, key, value, bias, needs_logsumexp, ...   ->  context, logsumexp,...

Such an operation runs itself and is observed beside, because only it knows its further results.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.kernels.observe.taps import Describer, Tapped, Unmapped, register_tap
from regard.tracing.recording.sdpa import describe_sdpa

_PLAIN = ("attn_mask", "dropout_p", "is_causal")
_FLASH = ("dropout_p", "is_causal")
_BIASED = ("attn_bias", "compute_log_sumexp", "dropout_p", "is_causal")
# the names of the positional arguments behind query, key and value, for each kernel
_KERNELS: dict[str, tuple[str, ...]] = {
    "_scaled_dot_product_attention_math": _PLAIN,
    "_scaled_dot_product_flash_attention": _FLASH,
    "_scaled_dot_product_flash_attention_for_cpu": _FLASH,
    "_scaled_dot_product_efficient_attention": _BIASED,
    "_scaled_dot_product_cudnn_attention": _BIASED,
    "_scaled_dot_product_fused_attention_overrideable": (
        *("attn_bias", "dropout_p", "is_causal", "return_debug_mask", "compute_log_sumexp"),
    ),
}


def describer_of_kernel(kernel: Callable[..., Any], names: tuple[str, ...]) -> Describer:
    """A describer of a kernel whose arguments behind query, key and value have these names."""

    def describe(*args: Any, **kwargs: Any) -> Tapped | Unmapped:
        settings = dict(zip(names, args[3:], strict=False)) | kwargs
        tapped = describe_sdpa(
            *args[:3],
            *(kwargs[name] for name in ("query", "key", "value")[len(args) :]),
            attn_mask=settings.get("attn_bias", settings.get("attn_mask")),
            dropout_p=settings.get("dropout_p", 0.0),
            is_causal=settings.get("is_causal", False),
            scale=settings.get("scale"),
            enable_gqa=settings.get("enable_gqa", False),
        )
        if isinstance(tapped, Unmapped):
            return tapped
        finish = tapped.finish

        def add_results(context: Tensor) -> Any:
            with torch.no_grad():
                return finish(context), *kernel(*args, **kwargs)[1:]

        return replace(tapped, finish=add_results, runs_itself=True)

    return describe


def _register(name: str, describer_for: Callable[[Callable[..., Any]], Describer]) -> None:
    """Register the operation of this name in each form in which it is called."""
    packet = getattr(torch.ops.aten, name, None)
    functions = [packet, getattr(packet, "default", None), getattr(torch, name, None)]
    for function in functions:
        if function is not None:
            register_tap(function, describer_for(function))


_register("scaled_dot_product_attention", lambda _: describe_sdpa)
for _name, _names in _KERNELS.items():
    _register(_name, lambda kernel, names=_names: describer_of_kernel(kernel, names))  # type: ignore[misc]
