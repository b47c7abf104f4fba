"""The structures that Python fills and C++ reads, field by field and in the same order.

Their C++ counterparts are in cpp/observe/call.h, cpp/shared/parallel.h and cpp/pair_sums.cpp. All
strides are counted in elements.
"""

import ctypes
from typing import ClassVar

Pointer, Size, Code, Real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_float


class Matrix(ctypes.Structure):
    """A tensor with the axes batch, head, row and a contiguous last axis."""

    _fields_: ClassVar = [("data", Pointer), ("strides", Size * 3)]


class ScoreTerm(ctypes.Structure):
    """A bias that is added to the scores, or a boolean mask that hides some of them."""

    _fields_: ClassVar = [
        ("data", Pointer),
        ("strides", Size * 4),
        ("first_row", Size),
        ("kind", Code),
    ]


class NativeCall(ctypes.Structure):
    """The tensors of a call, its sizes, and what it does to its scores."""

    _fields_: ClassVar = [
        *[(name, Matrix) for name in ("query", "key", "value")],
        *[(name, Size) for name in ("batch", "heads", "key_heads", "queries", "keys")],
        *[(name, Size) for name in ("dim", "value_dim", "offset", "left", "right")],
        ("terms", ScoreTerm * 3),
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


class ObservationPointers(ctypes.Structure):
    """Where the results of `observe` are written; a null pointer leaves a result out."""

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


class RegionPointers(ctypes.Structure):
    """A rectangle of one head, and where the sum and maximum of its cells are written."""

    _fields_: ClassVar = [
        *[(name, Size) for name in ("example", "head", "first_row", "last_row")],
        *[(name, Size) for name in ("first_column", "last_column", "zoom")],
        *[(name, Pointer) for name in ("lse", "sum", "largest")],
    ]


class ReceivedPointers(ctypes.Structure):
    """Where the sums of columns and each row's mass per label are written."""

    _fields_: ClassVar = [
        ("lse", Pointer),
        ("total", Pointer),
        ("labels", Pointer),
        ("label_count", Size),
        ("by_label", Pointer),
    ]


class Progress(ctypes.Structure):
    """Which rows to compute, the task to continue with, and after how many seconds to return."""

    _fields_: ClassVar = [
        ("first_row", Size),
        ("last_row", Size),
        ("next", Size),
        ("seconds", ctypes.c_double),
    ]


class PairSums(ctypes.Structure):
    """Two sides of every pair, and where the sums over hidden units are written."""

    _fields_: ClassVar = [
        *[(name, Pointer) for name in ("first", "second", "v", "gradient")],
        *[(name, Pointer) for name in ("scores", "to_first", "to_v")],
        *[(name, Size) for name in ("rows", "firsts", "seconds", "hidden")],
        ("gradient_strides", Size * 3),
        ("threads", Size),
    ]


# Python and C++ agree if the sizes of all structures do: three digits for each.
LAYOUT = 1
for structure in (
    NativeCall,
    ObservationPointers,
    RegionPointers,
    ReceivedPointers,
    Progress,
    PairSums,
):
    LAYOUT = LAYOUT * 1000 + ctypes.sizeof(structure)
