"""The native implementation: the C++ library, called with raw pointers, on torch's own threads.

The C++ sources are in kernels/cpp/observe. Every function here allocates the result tensors, fills
a structure of `layout` with their addresses, and runs the pass in slices of SLICE_SECONDS.
"""

import ctypes
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.kernels.layout import (
    STATISTICS,
    NativeCall,
    ObservationPointers,
    Progress,
    ReceivedPointers,
    RegionPointers,
)
from regard.kernels.library import library, native_enabled, warn_missing
from regard.kernels.memory import has_plain_memory, resolve
from regard.kernels.observe.accumulate import (
    divide_cell_sums,
    empty_atlas,
    empty_statistics,
    empty_top,
)
from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Observation, ObserveOptions
from regard.kernels.observe.region import Pooled, Region
from regard.masks import Area

# The codes of `Kind` in cpp/observe/call.h.
KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.bool: 3}
ABSENT = 4
NONE = [0] * len(STATISTICS)  # the addresses of statistics that are not computed
# The fields of ObservationPointers: filled at once, which is quicker than one by one.
_OBSERVATION = struct.Struct(f"Q3qQ{len(STATISTICS)}Q2Qq2Q2q")
_CALL = struct.Struct("Q3q" * 3 + "10q" + "Q5qi4x" * 3 + "2Q2f2i")  # those of NativeCall
_NO_TERMS = (0, 0, 0, 0, 0, 0, ABSENT) * 3
assert _CALL.size == ctypes.sizeof(NativeCall)
assert _OBSERVATION.size == ctypes.sizeof(ObservationPointers)
# Ctrl-C is heard between two slices; the threads wait for each other once in each.
SLICE_SECONDS = 0.2
# Masks and biases that vary by query are made dense for about this many numbers at a time.
SLAB_NUMBERS = 1 << 24
ROWS = 48  # queries of a block, as in cpp/observe/blocks.h
OUT_OF_MEMORY = 1  # the code of `Outcome` in cpp/shared/parallel.h
# From this many queries on, copying keys and values that lie far apart pays off, because each is
# read by every block of queries: it saves a fifth of the time at 8192.
COPY_FROM_QUERIES = 512


def supports(call: Call) -> bool:
    """True for float32, bfloat16 and float16 in plain memory of the CPU, no axis of size zero."""
    sizes = (*call.sizes, call.query.shape[3], call.value.shape[3])
    fits = call.query.dtype in KINDS and call.query.device.type == "cpu" and 0 not in sizes
    if not fits:
        return False
    mask, bias = call.scoring.mask, call.scoring.bias
    seen, added = mask.tensors if mask else (), bias.tensors if bias else ()
    own = (call.query, call.key, call.value, call.padded, call.scoring.sink)
    return has_plain_memory(*own, *seen, *added)


def is_available() -> bool:
    """True if the library is compiled and not disabled; warns once if it is merely missing."""
    if not native_enabled():
        return False
    if library() is None:
        warn_missing()
        return False
    return True


def observe(call: Call, keep: ObserveOptions) -> Observation:
    """The context, the logsumexp and whatever `keep` asks for, in one pass."""
    batch, heads, queries, _ = call.sizes
    lse = torch.empty(batch, heads, queries)
    width = call.value.shape[3]
    context = torch.empty(batch, queries, heads, width, dtype=call.query.dtype).transpose(1, 2)
    statistics = empty_statistics(call) if keep.statistics else None
    top = empty_top(call, keep.top) if keep.top else None
    atlas = empty_atlas(call, keep.atlas) if keep.atlas else None
    numbers = [getattr(statistics, name).data_ptr() for name in STATISTICS] if statistics else NONE
    pointers = _OBSERVATION.pack(
        context.data_ptr() if keep.context else 0,
        *context.stride()[:3],
        lse.data_ptr(),
        *numbers,
        *((top.weights.data_ptr(), top.keys.data_ptr(), int(keep.top)) if top else (0, 0, 0)),
        *((atlas.mean.data_ptr(), atlas.largest.data_ptr()) if atlas else (0, 0)),
        *((atlas.rows, atlas.columns) if atlas else (0, 0)),
    )
    height = math.lcm(ROWS, atlas.rows if atlas else 1)
    run(call, range(queries), height, "regard_observe", pointers)
    if atlas:
        divide_cell_sums(call, atlas)
    return Observation(context if keep.context else None, lse, statistics, top, atlas, call.scoring)


def pool_region(call: Call, lse: Tensor, region: Region) -> Pooled:
    """The sum and the largest weight of each cell of a region."""
    shape = region.cells
    pooled = Pooled(torch.zeros(shape), torch.zeros(shape))
    lse = resolve(lse).contiguous()
    place = (int(region.example), int(region.head), region.rows.start, region.rows.stop)
    pointers = RegionPointers(*place)
    pointers.first_column, pointers.last_column = region.columns.start, region.columns.stop
    pointers.zoom, pointers.lse = int(region.zoom), lse.data_ptr()
    pointers.sum, pointers.largest = pooled.mean.data_ptr(), pooled.largest.data_ptr()
    height = region.zoom * max(1, ROWS // region.zoom)
    run(call, region.rows, height, "regard_pool_region", ctypes.byref(pointers))
    return pooled


def sum_received(
    call: Call, lse: Tensor, labels: Tensor | None, count: int
) -> tuple[Tensor, Tensor | None]:
    """The sum of each key's column of weights, and each row's mass on each of `count` labels."""
    batch, heads, queries, keys = call.sizes
    lse = resolve(lse).contiguous()
    total = torch.zeros(batch, heads, keys, dtype=torch.float64)
    pointers = ReceivedPointers(lse.data_ptr(), total.data_ptr(), None, count, None)
    by_label = None
    if labels is not None:
        # All negative labels mean the same, and the lowest of int64 would become 0 in int32.
        labels = labels.to("cpu", torch.int64).clamp(min=-1).to(torch.int32).contiguous()
        by_label = torch.zeros(batch, heads, queries, count)
        pointers.labels, pointers.by_label = labels.data_ptr(), by_label.data_ptr()
    run(call, range(queries), 8 * ROWS, "regard_sum_received", ctypes.byref(pointers))
    return total.float(), by_label


def run(call: Call, rows: range, height: int, name: str, results: Any) -> None:
    """Run a pass of the library over these rows, in slabs of a multiple of `height` rows."""
    function: Callable[..., int] = getattr(library(), name)
    native, tensors = _native_call(call)
    for slab, terms in _slabs(call, rows, height):
        for index, term in enumerate(terms):
            _set_term(native.terms[index], term, slab.start, call)
        progress = Progress(slab.start, slab.stop, 0, SLICE_SECONDS)
        while outcome := function(ctypes.byref(native), results, ctypes.byref(progress)):
            if outcome == OUT_OF_MEMORY:
                raise RegardError("the native kernel ran out of memory; free some and try again")
    del tensors  # until here the library read their memory


def _native_call(call: Call) -> tuple[NativeCall, list[Tensor]]:
    """The call as C++ reads it, and the tensors that must live as long as it is read."""
    tensors, matrices = list[Tensor](), list[int]()
    for place, side in enumerate((call.query, call.key, call.value)):
        tensor = resolve(side)
        if tensor.stride(3) != 1 or (place and _worth_copying(tensor, call)):
            tensor = tensor.contiguous()
        matrices += (tensor.data_ptr(), *tensor.stride()[:3])
        tensors.append(tensor)
    sink = padded = 0
    if call.scoring.sink is not None:
        tensors.append(resolve(call.scoring.sink).to("cpu", torch.float32).contiguous())
        sink = tensors[-1].data_ptr()
    if call.padded is not None:
        tensors.append(call.padded.to("cpu").contiguous())
        padded = tensors[-1].data_ptr()
    batch, heads, queries, keys = call.sizes
    _, key_heads, _, dim = call.key.shape
    packed = _CALL.pack(
        *matrices,
        *(batch, heads, key_heads, queries, keys, dim, call.value.shape[3]),
        *(int(call.scoring.offset), *_window_limits(call)),
        *_NO_TERMS,
        *(sink, padded, call.scale, call.scoring.softcap or 0.0),
        *(KINDS[call.query.dtype], torch.get_num_threads()),
    )
    return NativeCall.from_buffer_copy(packed), tensors


def _window_limits(call: Call) -> tuple[int, int]:
    """The sides of the window, cut to the distances that occur in the call, so that C++ can add.

    A side that reaches further than any key of the call is as good as one that reaches all.
    """
    window, (_, _, queries, keys) = call.split[0], call.sizes
    nearest, farthest = call.scoring.offset - (keys - 1), call.scoring.offset + queries - 1
    left = farthest if window.left is None else max(nearest - 1, min(window.left, farthest))
    right = -nearest if window.right is None else max(-farthest - 1, min(window.right, -nearest))
    return left, right


def _worth_copying(tensor: Tensor, call: Call) -> bool:
    """True if rows have gaps between them and enough queries read them to pay for a copy."""
    return tensor.stride(2) > tensor.shape[3] and call.sizes[2] >= COPY_FROM_QUERIES


def _slabs(call: Call, rows: range, height: int) -> Iterator[tuple[range, list[Tensor]]]:
    """Ranges of rows, each with the dense mask and bias of these rows, of about SLAB_NUMBERS."""
    _, rest = call.split
    if rest is None and call.scoring.bias is None:
        yield rows, []
        return
    keys = call.sizes[3]
    # The mask comes last: it hides a key whatever the bias made of its score, NaN included.
    terms = [term for term in (call.scoring.bias, rest) if term is not None]
    probe = Area(rows[:2], range(keys), call.scoring.offset)
    shapes = [term.cut(probe).shape for term in terms]
    row = max((s[0] * s[1] * s[3] for s in shapes if s[2] > 1), default=0)
    slab_rows = max(height, SLAB_NUMBERS // row // height * height) if row else len(rows)
    for start in range(rows.start, rows.stop, slab_rows):
        slab = range(start, min(rows.stop, start + slab_rows))
        area = Area(slab, range(keys), call.scoring.offset)
        yield slab, [_supported_dtype(term.cut(area)) for term in terms]


def _supported_dtype(term: Tensor) -> Tensor:
    """A mask or bias on the CPU in a dtype that C++ reads."""
    term = resolve(term).to("cpu")
    return term if term.dtype in KINDS else term.float()


def _set_term(target: Any, term: Tensor, first_row: int, call: Call) -> None:
    """Let a ScoreTerm of the native call point to this tensor, broadcast to the call's sizes."""
    term = term.expand(*call.sizes[:2], term.shape[2], call.sizes[3])
    target.data, target.strides[:] = term.data_ptr(), term.stride()
    if term.shape[2] == 1 and call.sizes[2] > 1:
        target.strides[2] = 0
    target.first_row, target.kind = first_row, KINDS[term.dtype]
