"""The structures that Python and C++ exchange; cpp/call.h has the same fields in the same order."""

import ctypes
from typing import ClassVar

Pointer, Size, Code, Real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float


class Matrix(ctypes.Structure):
    """Axes batch, head, row, with the last axis contiguous."""

    _fields_: ClassVar = [("data", Pointer), ("strides", Size * 3)]


class Term(ctypes.Structure):
    """What is added to the scores, or hides them."""

    _fields_: ClassVar = [
        ("data", Pointer),
        ("strides", Size * 4),
        ("first_row", Size),
        ("kind", Code),
    ]


class NativeCall(ctypes.Structure):
    """Tensors, sizes and scoring."""

    _fields_: ClassVar = [
        *[(name, Matrix) for name in ("query", "key", "value")],
        *[(name, Size) for name in ("batch", "heads", "key_heads", "queries", "keys")],
        *[(name, Size) for name in ("dim", "value_dim", "offset", "left", "right")],
        ("terms", Term * 3),
        ("sink", Pointer),
        ("padded", Pointer),
        ("scale", Real),
        ("softcap", Real),
        ("kind", Code),
        ("threads", Code),
    ]


STATISTICS = (
    "entropy",
    "largest",
    "distance",
    "on_first",
    "on_self",
    "on_previous",
    "on_next",
    "on_future",
    "on_padding",
    "on_sink",
    "largest_key",
)


class Kept(ctypes.Structure):
    """Where results go; a null pointer is a result that is not wanted."""

    _fields_: ClassVar = [
        ("context", Pointer),
        ("context_strides", Size * 3),
        ("lse", Pointer),
        *[(name, Pointer) for name in STATISTICS],
        ("top_weights", Pointer),
        ("top_keys", Pointer),
        ("top", Size),
        ("cell_sum", Pointer),
        ("cell_largest", Pointer),
        ("cell_rows", Size),
        ("cell_columns", Size),
    ]


class View(ctypes.Structure):
    """One rectangle of one head, pooled to cells."""

    _fields_: ClassVar = [
        *[(name, Size) for name in ("example", "head", "first_row", "last_row")],
        *[(name, Size) for name in ("first_column", "last_column", "zoom")],
        *[(name, Pointer) for name in ("lse", "sum", "largest")],
    ]


class Counted(ctypes.Structure):
    """What keys receive, and what rows give to labels."""

    _fields_: ClassVar = [
        ("lse", Pointer),
        ("total", Pointer),
        ("labels", Pointer),
        ("label_count", Size),
        ("by_label", Pointer),
    ]


class Progress(ctypes.Structure):
    """The rows of a run, the task to go on with, and how long to go on."""

    _fields_: ClassVar = [
        ("first_row", Size),
        ("last_row", Size),
        ("next", Size),
        ("seconds", ctypes.c_double),
    ]


class Pairs(ctypes.Structure):
    """Two sides of pairs, and where what is summed over them goes."""

    _fields_: ClassVar = [
        *[(name, Pointer) for name in ("first", "second", "v", "gradient")],
        *[(name, Pointer) for name in ("scores", "to_first", "to_v")],
        *[(name, Size) for name in ("rows", "firsts", "seconds", "hidden")],
        ("gradient_strides", Size * 3),
        ("threads", Size),
    ]


# Both sides agree when the sizes do, three digits for each structure.
LAYOUT = 1
for kind in (NativeCall, Kept, View, Counted, Progress, Pairs):
    LAYOUT = LAYOUT * 1000 + ctypes.sizeof(kind)
