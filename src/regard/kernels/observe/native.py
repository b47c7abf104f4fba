"""The native kernel: the same numbers from C++ on raw pointers, on torch's own threads."""

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError
from regard.kernels.layout import STATISTICS, Counted, Kept, NativeCall, Progress, View
from regard.kernels.library import library
from regard.kernels.observe.accumulate import empty_atlas, empty_statistics, empty_top, settle_means
from regard.kernels.observe.call import Call
from regard.kernels.observe.observation import Observation, ObserveOptions
from regard.kernels.observe.region import Pooled, Region
from regard.masks import Area

KINDS = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2, torch.bool: 3}
ABSENT = 4
UNLIMITED = 1 << 60
# Ctrl-C is heard between slices; the threads wait for each other once in each.
SLICE_SECONDS = 0.2
# Masks and biases that vary by query are cut into slabs of about this many numbers.
SLAB_NUMBERS = 1 << 24
ROWS = 48
OUT_OF_MEMORY = 1
# So many queries read each key that a copy without gaps pays: a fifth of the time at 8192.
MANY = 512


def fits(call: Call) -> bool:
    """Whether the native kernel takes such a call."""
    sizes = (*call.sizes, call.query.shape[3], call.value.shape[3])
    return call.query.dtype in KINDS and call.query.device.type == "cpu" and 0 not in sizes


def observe(call: Call, keep: ObserveOptions) -> Observation:
    """The context and what was seen, in one pass."""
    batch, heads, queries, _ = call.sizes
    lse = torch.empty(batch, heads, queries)
    width = call.value.shape[3]
    context = torch.empty(batch, queries, heads, width, dtype=call.query.dtype).transpose(1, 2)
    statistics = empty_statistics(call) if keep.statistics else None
    top = empty_top(call, keep.top) if keep.top else None
    atlas = empty_atlas(call, keep.atlas) if keep.atlas else None
    kept = Kept(lse=lse.data_ptr())
    if keep.context:
        kept.context, kept.context_strides[:] = context.data_ptr(), context.stride()[:3]
    if statistics:
        for name in STATISTICS:
            setattr(kept, name, getattr(statistics, name).data_ptr())
    if top:
        kept.top_weights, kept.top_keys = top.weights.data_ptr(), top.keys.data_ptr()
        kept.top = keep.top
    if atlas:
        kept.cell_sum, kept.cell_largest = atlas.mean.data_ptr(), atlas.largest.data_ptr()
        kept.cell_rows, kept.cell_columns = atlas.rows, atlas.columns
    height = math.lcm(ROWS, atlas.rows if atlas else 1)
    run(call, range(queries), height, "regard_observe", ctypes.byref(kept))
    if atlas:
        settle_means(call, atlas)
    return Observation(context if keep.context else None, lse, statistics, top, atlas, call.scoring)


def look(call: Call, lse: Tensor, region: Region) -> Pooled:
    """The weights of a region, each cell's sum and largest."""
    shape = region.cells
    pooled = Pooled(torch.zeros(shape), torch.zeros(shape))
    lse = lse.detach().contiguous()
    view = View(region.example, region.head, region.rows.start, region.rows.stop)
    view.first_column, view.last_column = region.columns.start, region.columns.stop
    view.zoom, view.lse = region.zoom, lse.data_ptr()
    view.sum, view.largest = pooled.mean.data_ptr(), pooled.largest.data_ptr()
    height = region.zoom * max(1, ROWS // region.zoom)
    run(call, region.rows, height, "regard_look", ctypes.byref(view))
    return pooled


def count(
    call: Call, lse: Tensor, labels: Tensor | None, names: int
) -> tuple[Tensor, Tensor | None]:
    """Column sums, and each row's mass per label."""
    batch, heads, queries, keys = call.sizes
    lse = lse.detach().contiguous()
    total = torch.zeros(batch, heads, keys, dtype=torch.float64)
    counted = Counted(lse.data_ptr(), total.data_ptr(), None, names, None)
    by_label = None
    if labels is not None:
        labels = labels.to("cpu", torch.int32).contiguous()
        by_label = torch.zeros(batch, heads, queries, names)
        counted.labels, counted.by_label = labels.data_ptr(), by_label.data_ptr()
    run(call, range(queries), 8 * ROWS, "regard_count", ctypes.byref(counted))
    return total.float(), by_label


def run(call: Call, rows: range, height: int, name: str, kept: Any) -> None:
    """Run a pass of the library over rows, in slabs that are a multiple of `height`."""
    function: Callable[..., int] = getattr(library(), name)
    native, alive = _translate(call)
    for slab, terms in _slabs(call, rows, height):
        for place, term in enumerate(terms):
            _point(native.terms[place], term, slab.start, call)
        progress = Progress(slab.start, slab.stop, 0, SLICE_SECONDS)
        while outcome := function(ctypes.byref(native), kept, ctypes.byref(progress)):
            if outcome == OUT_OF_MEMORY:
                raise RegardError("the native kernel ran out of memory; free some and try again")
    del alive


def _translate(call: Call) -> tuple[NativeCall, list[Tensor]]:
    """The call for C++, and tensors that must outlive it."""
    alive = []
    window, _ = call.split
    native = NativeCall(
        offset=call.scoring.offset,
        left=UNLIMITED if window.left is None else window.left,
        right=UNLIMITED if window.right is None else window.right,
        scale=call.scale,
        softcap=call.scoring.softcap or 0.0,
        kind=KINDS[call.query.dtype],
        threads=torch.get_num_threads(),
    )
    native.batch, native.heads, native.queries, native.keys = call.sizes
    native.key_heads, native.dim = call.key.shape[1], call.key.shape[3]
    native.value_dim = call.value.shape[3]
    for name in ("query", "key", "value"):
        tensor = getattr(call, name).detach()
        if tensor.stride(3) != 1 or (name != "query" and _far_apart(tensor, call)):
            tensor = tensor.contiguous()
        matrix = getattr(native, name)
        matrix.data, matrix.strides[:] = tensor.data_ptr(), tensor.stride()[:3]
        alive.append(tensor)
    for place in range(3):
        native.terms[place].kind = ABSENT
    if call.scoring.sink is not None:
        alive.append(call.scoring.sink.detach().to("cpu", torch.float32).contiguous())
        native.sink = alive[-1].data_ptr()
    if call.padded is not None:
        alive.append(call.padded.to("cpu").contiguous())
        native.padded = alive[-1].data_ptr()
    return native, alive


def _far_apart(tensor: Tensor, call: Call) -> bool:
    """Whether rows lie so far apart that many queries had better read a copy of them."""
    return tensor.stride(2) > tensor.shape[3] and call.sizes[2] >= MANY


def _slabs(call: Call, rows: range, height: int) -> Iterator[tuple[range, list[Tensor]]]:
    """Ranges of rows with the dense parts of mask and bias that they need, kept small."""
    _, rest = call.split
    keys = call.sizes[3]
    terms = [term for term in (rest, call.scoring.bias) if term is not None]
    probe = Area(rows[:2], range(keys), call.scoring.offset)
    shapes = [term.cut(probe).shape for term in terms]
    row = max((s[0] * s[1] * s[3] for s in shapes if s[2] > 1), default=0)
    most = max(height, SLAB_NUMBERS // row // height * height) if row else len(rows)
    for start in range(rows.start, rows.stop, most):
        slab = range(start, min(rows.stop, start + most))
        area = Area(slab, range(keys), call.scoring.offset)
        yield slab, [_plain(term.cut(area)) for term in terms]


def _plain(term: Tensor) -> Tensor:
    term = term.detach().to("cpu")
    return term if term.dtype in KINDS else term.float()


def _point(target: Any, term: Tensor, first_row: int, call: Call) -> None:
    term = term.expand(*call.sizes[:2], term.shape[2], call.sizes[3])
    target.data, target.strides[:] = term.data_ptr(), term.stride()
    if term.shape[2] == 1 and call.sizes[2] > 1:
        target.strides[2] = 0
    target.first_row, target.kind = first_row, KINDS[term.dtype]
