"""One token of every row through all layers of a decoder, in one native call.

The classes are the structures that Python fills and C++ reads; cpp/decode/decoder_step.cpp has the
same fields in the same order. All pointers are to float32 tensors on the CPU unless noted; the
caller keeps the tensors alive.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import ClassVar

from regard.kernels.decode.matvec import load_matvec
from regard.kernels.library import library

Pointer, Size = ctypes.c_void_p, ctypes.c_int64


class Linear(ctypes.Structure):
    """A linear layer x W^T + b; with `scales`, W holds 8-bit integers and each row has a scale."""

    _fields_: ClassVar = [
        *[(name, Pointer) for name in ("weight", "scales", "bias")],
        *[(name, Size) for name in ("in_features", "out_features")],
    ]


class Norm(ctypes.Structure):
    """A normalisation; kind is 0 for none, 1 for LayerNorm, 2 for RMSNorm."""

    _fields_: ClassVar = [
        ("weight", Pointer),
        ("bias", Pointer),
        ("eps", ctypes.c_double),
        ("kind", Size),
    ]


class DecoderLayer(ctypes.Structure):
    """The parameters of one layer, and the projected keys and values of its source, if any.

    `gate` and the cross-attention parts have null weights where a layer lacks them.
    """

    _fields_: ClassVar = [
        *[(name, Linear) for name in ("qkv", "self_out", "cross_query", "cross_out")],
        *[(name, Linear) for name in ("up", "gate", "down")],
        *[(name, Norm) for name in ("self_norm", "cross_norm", "ffn_norm")],
        ("source_key", Pointer),
        ("source_value", Pointer),
        ("source_strides", Size * 3),
    ]


class DecoderStep(ctypes.Structure):
    """What all layers share: the new tokens' vectors, the cache, and every size.

    `cache` holds the keys and values of earlier positions. At position p, row r of the batch reads
    cache row `cache_rows[r][p]` (int64), so that beams change places without copying.
    """

    _fields_: ClassVar = [
        *[(name, Pointer) for name in ("layers", "x", "logits", "scratch", "cache")],
        *[(name, Pointer) for name in ("source_bias", "cos", "sin", "padding", "cache_rows")],
        ("cache_strides", Size * 4),
        ("cache_rows_stride", Size),
        ("final_norm", Norm),
        ("output", Linear),
        *[(name, Size) for name in ("layer_count", "rows", "dim", "max_width")],
        *[(name, Size) for name in ("heads", "key_heads", "head_dim")],
        *[(name, Size) for name in ("position", "source_length", "rows_per_source")],
        *[(name, Size) for name in ("norm_first", "activation", "rotary_halves", "threads")],
    ]


@cache
def load_decoder_step() -> Callable[..., None] | None:
    """The C++ function that runs a DecoderStep; None if the library is missing or disabled."""
    loaded = library() if load_matvec() is not None and _layouts_agree() else None
    function: Callable[..., None] | None = getattr(loaded, "regard_decoder_step", None)
    if function is not None:
        function.argtypes, function.restype = [ctypes.POINTER(DecoderStep)], None  # type: ignore[attr-defined]
    return function


@cache
def load_layer_attention() -> Callable[..., None] | None:
    """The C++ function for the attention of one layer alone; None where there is none.

    It serves batches with too many rows for the native products: torch multiplies, C++ attends.
    """
    if load_decoder_step() is None:
        return None
    function = getattr(library(), "regard_layer_attention", None)
    if function is not None:
        step, size, pointer = ctypes.POINTER(DecoderStep), ctypes.c_int64, ctypes.c_void_p
        function.argtypes, function.restype = [step, size, pointer, pointer, ctypes.c_int], None
    return function


def _layouts_agree() -> bool:
    """True if the library was compiled with the structures that this file declares."""
    layout = getattr(library(), "regard_decoder_layout", None)
    if layout is None:
        return False
    layout.restype = ctypes.c_int64
    return bool(layout() == ctypes.sizeof(DecoderStep) * 10000 + ctypes.sizeof(DecoderLayer))
