"""One token of each row through the layers of a decoder, natively: what Python and C++ exchange.

The fields are those of cpp/decode.cpp, in the same order.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import ClassVar

from regard.kernels.decode.matvec import load_matvec
from regard.kernels.library import library

Pointer, Size = ctypes.c_void_p, ctypes.c_int64


class Linear(ctypes.Structure):
    """x W^T + b; with scales, W is of eight-bit numbers."""

    _fields_: ClassVar = [
        *[(name, Pointer) for name in ("w", "scales", "bias")],
        *[(name, Size) for name in ("dim", "outs")],
    ]


class Norm(ctypes.Structure):
    """A normalisation: of no kind (0), of a layer (1), by the root of the mean square (2)."""

    _fields_: ClassVar = [
        ("w", Pointer),
        ("bias", Pointer),
        ("eps", ctypes.c_double),
        ("kind", Size),
    ]


class Block(ctypes.Structure):
    """A layer."""

    _fields_: ClassVar = [
        *[(name, Linear) for name in ("joined", "out", "query", "cross_out", "up", "gate", "down")],
        *[(name, Norm) for name in ("own", "cross", "last")],
        ("key", Pointer),
        ("value", Pointer),
        ("strides", Size * 3),
    ]


class Step(ctypes.Structure):
    """What all layers read, and how long everything is."""

    _fields_: ClassVar = [
        *[(name, Pointer) for name in ("blocks", "x", "logits", "scratch", "room")],
        *[(name, Pointer) for name in ("hidden", "cos", "sin", "pads", "table")],
        ("room_strides", Size * 4),
        ("table_stride", Size),
        ("norm", Norm),
        ("output", Linear),
        *[(name, Size) for name in ("layers", "rows", "dim", "wide", "heads", "key_heads")],
        *[(name, Size) for name in ("head_dim", "start", "source", "each")],
        *[(name, Size) for name in ("norm_first", "activation", "halves", "threads")],
    ]


@cache
def decoder() -> Callable[..., None] | None:
    """The native function, or None where it is not built."""
    found = library() if load_matvec() is not None and _agreed() else None
    function: Callable[..., None] | None = getattr(found, "regard_decode", None)
    if function is not None:
        function.argtypes, function.restype = [ctypes.POINTER(Step)], None  # type: ignore[attr-defined]
    return function


def _agreed() -> bool:
    """Whether the library is of a build with the fields that are written down here."""
    layout = getattr(library(), "regard_decode_layout", None)
    if layout is None:
        return False
    layout.restype = ctypes.c_int64
    return bool(layout() == ctypes.sizeof(Step) * 10000 + ctypes.sizeof(Block))


@cache
def reader() -> Callable[..., None] | None:
    """The native function for one reading of one layer, or None where it is not built."""
    function = None if decoder() is None else getattr(library(), "regard_read", None)
    if function is not None:
        step, size, place = ctypes.POINTER(Step), ctypes.c_int64, ctypes.c_void_p
        function.argtypes, function.restype = [step, size, place, place, ctypes.c_int], None
    return function
