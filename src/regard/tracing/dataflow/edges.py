"""Attention along the edges of a graph: what a tensor with a row for each edge holds, and the map.

Graph networks (GAT, Velickovic et al. 2018, equations 1 to 4) hold no matrix of nodes by nodes.
They copy the vectors of both ends to each edge, compute a score there, and normalise it over all
edges that lead to the same node. For a graph of 7 nodes and 17 edges, 3 heads:

    x.index_select(0, source)      (17, 3, 5)  EdgeRows, one end of each edge
    scores = ... of both ends      (17, 3)     EdgeRows, both ends
    exp(scores - largest)          (17, 3)     EdgeExponentials
    scatter_add_(0, target, ...)   (7, 3)      TargetSums
    ... .index_select(0, target)   (17, 3)     TargetSums, on the edges again
    exponentials / sums            (17, 3)     EdgeWeights
    weights[..., None] * x_source  (17, 3, 5)  WeightedEdges
    scatter_add_(0, target, ...)   (7, 3, 5)   the context: map_of_edges is (3, 7, 7)

The index tensors tell which nodes an edge joins: its target is where its product is added to, and
its source is where its values were taken from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.tracing.dataflow.sampling import MAX_NUMBERS
from regard.tracing.readable import are_readable

UNCLEAR = (
    "it normalises weights over the edges of a graph, but what is added up at the nodes is not "
    "weights times the values of one other node for each edge; register_tap its function to say "
    "what it does"
)
_SUMS = frozenset(("sum", "mean"))


class EdgeEnd(NamedTuple):
    """The nodes at one end of all edges: their indices, how many there are, and their stream."""

    indices: Int[Tensor, " edge"]
    nodes: int
    stream: str | None = None


Ends = tuple[EdgeEnd, ...]


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """A row for each edge, computed from the vectors at these ends.

    `is_normalised` says that the logarithms of sums over targets were subtracted from scores.
    """

    ends: Ends
    is_normalised: bool = False


@dataclass(frozen=True, eq=False)
class EdgeExponentials:
    """exp(scores) of each edge; the same object as long as the numbers are the same."""

    ends: Ends


@dataclass(frozen=True, eq=False)
class TargetSums:
    """Exponentials summed over the edges of each target; `on_edges` if copied to these again."""

    exponentials: EdgeExponentials
    indices: Int[Tensor, " edge"]
    on_edges: bool = False


@dataclass(frozen=True, eq=False)
class EdgeWeights:
    """Exponentials divided by the sum over the edges of their target."""

    ends: Ends


@dataclass(frozen=True, eq=False)
class WeightedEdges:
    """Weights times values, a row for each edge, before they are summed over the edges.

    If `exponentials` are set, the weights are these, and are still to be divided by their sums.
    `product` is a copy of the rows where they took the place of the values. If the weights are
    not normalised, `is_sure` is False: the product may be a step to something else.
    """

    site: str
    weights: Tensor
    values: Tensor
    weight_ends: Ends
    value_ends: Ends
    exponentials: EdgeExponentials | None = None
    product: Tensor | None = None
    is_sure: bool = True


@dataclass(frozen=True, eq=False)
class UndividedContext:
    """Values summed by exponentials, which are weights once they are divided by their sums."""

    sum: "EdgeSum"
    weighted: WeightedEdges


EdgeState = (
    EdgeRows | EdgeExponentials | TargetSums | EdgeWeights | WeightedEdges | UndividedContext
)


class EdgeSum(NamedTuple):
    """Rows of edges, added up at their targets."""

    rows: Tensor
    indices: Int[Tensor, " edge"]
    targets: int
    is_mean: bool = False


def find_nodes(inputs: Mapping[str, Tensor]) -> str | None:
    """The name of an input (node, feature), if another one has the edges of a graph; else None.

    The first axis of such an input holds nodes and not examples.
    """
    matrices = [(name, tensor) for name, tensor in inputs.items() if tensor.dim() == 2]
    if len(matrices) < 2:
        return None
    for name, tensor in matrices:
        if tensor.dtype.is_floating_point and any(
            _are_edges(other, len(tensor)) for _, other in matrices if other is not tensor
        ):
            return name
    return None


def _are_edges(tensor: Tensor, nodes: int) -> bool:
    """True for pairs of indices of nodes (2, edge), and for an undirected adjacency matrix."""
    if tensor.shape == (nodes, nodes) and tensor.layout != torch.strided:
        return True
    is_square = tensor.shape == (nodes, nodes) and nodes > 1
    is_pairs = len(tensor) == 2 != nodes and tensor.dtype == torch.int64 and tensor.numel() > 0
    if not (is_square or is_pairs) or not are_readable((tensor,)):
        return False
    if is_pairs:
        return int(tensor.min()) >= 0 and int(tensor.max()) < nodes
    linked = tensor != 0
    return not bool(linked.all()) and bool((tensor >= 0).all()) and torch.equal(linked, linked.mT)


def read_index(index: Any) -> Int[Tensor, " edge"] | None:
    """One index for each edge, from a tensor of them that may be expanded to the shape of rows."""
    if not isinstance(index, Tensor) or index.dtype not in (torch.int64, torch.int32):
        return None
    if index.dim() < 2 or not index.numel():
        return index if index.dim() == 1 else None
    first = index.flatten(1)[:, 0]
    expanded = all(
        stride == 0 or size == 1
        for stride, size in zip(index.stride()[1:], index.shape[1:], strict=True)
    )
    column = first.view(-1, *(1,) * (index.dim() - 1))
    return first if expanded or bool((index == column).all()) else None


def read_gather(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The tensor and the index of a function that copies rows; the index is None for others."""
    if name == "__getitem__":
        index = args[1]
        if isinstance(index, tuple) and len(index) == 2 and index[1] is Ellipsis:
            index = index[0]
        return args[0], index if isinstance(index, Tensor) and index.dim() == 1 else None
    call = dict(zip(("input", "dim", "index"), args, strict=False)) | kwargs
    source, index = call["input"], call["index"]
    if call["dim"] not in (0, -source.dim()):
        return source, None
    return source, index


def read_sum(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor
) -> EdgeSum | None:
    """The rows that a function adds up at indices of the first axis; None for other calls."""
    if name.startswith("index_put"):
        call = dict(zip(("input", "indices", "values", "accumulate"), args, strict=False)) | kwargs
        if not call.get("accumulate") or len(call["indices"]) != 1:
            return None
        rows, index, reduction = call["values"], call["indices"][0], "sum"
    else:
        names = ("input", "dim", "index", "src", "reduce")
        call = dict(zip(names, args, strict=False)) | kwargs
        rows, index = call.get("src", call.get("source")), call["index"]
        reduction = call.get("reduce", "sum")
        if call["dim"] not in (0, -result.dim()) or reduction not in _SUMS:
            return None
    index = read_index(index)
    if index is None or not isinstance(rows, Tensor) or len(rows) != len(index):
        return None
    return EdgeSum(rows, index, len(result), reduction == "mean")


def are_same(one: Tensor, other: Tensor) -> bool:
    """True if two index tensors hold the same indices."""
    if one is other or (one.data_ptr() == other.data_ptr() and one.stride() == other.stride()):
        return one.shape == other.shape
    return torch.equal(one, other)


def join_ends(parts: Sequence[Ends]) -> Ends:
    """All ends of several tensors, each once; a known stream is kept."""
    joined = list[EdgeEnd]()
    for end in (end for ends in parts for end in ends):
        place = next(
            (n for n, own in enumerate(joined) if are_same(own.indices, end.indices)), None
        )
        if place is None:
            joined.append(end)
        elif joined[place].stream is None:
            joined[place] = end
    return tuple(joined)


def are_scores(scores: EdgeRows, values: EdgeRows) -> bool:
    """True if rows depend on the contents of both ends of each edge, and others on one end only.

    Degrees of nodes, by which a graph convolution normalises, belong to no stream.
    """
    known = all(end.stream is not None for end in scores.ends)
    return known and len(scores.ends) == 2 and len(values.ends) == 1


def find_source(weighted: WeightedEdges, target: Int[Tensor, " edge"]) -> EdgeEnd | None:
    """The end that the values were taken from; None if that is not clear.

    Values that were copied from nowhere are rows of their own, as where nodes are pooled.
    """
    if not weighted.value_ends:
        count = len(target)
        at_nodes = all(are_same(end.indices, target) for end in weighted.weight_ends)
        return EdgeEnd(
            torch.arange(count, device=target.device), count, "nodes" if at_nodes else "edges"
        )
    others = [end for end in weighted.value_ends if not are_same(end.indices, target)]
    if not others:  # only edges from a node to itself
        return weighted.value_ends[0]
    return others[0] if len(others) == 1 else None


def gives_rows(weighted: WeightedEdges, rows: Tensor) -> bool:
    """True if the rows that are added up are weights times values."""
    weights, values = weighted.weights, weighted.values
    if weights.dim() < values.dim():  # as a product by einsum has them
        weights = weights[(..., *(None,) * (values.dim() - weights.dim()))]
    again = weights * values if weighted.product is None else weighted.product
    if again.numel() != rows.numel():
        return False
    size = float(again.abs().max()) if again.numel() else 0.0
    precision = torch.finfo(again.dtype).eps ** 0.5 * (size + 1e-6)
    return torch.allclose(again.reshape(rows.shape), rows.detach(), rtol=0, atol=precision)


def weights_by_head(weights: Tensor) -> Float[Tensor, "edge head"]:
    """A column for each head: without axes of size one, and without copies along other axes."""
    for axis in range(weights.dim() - 1, 0, -1):
        if weights.stride(axis) == 0:
            weights = weights.select(axis, 0)
    return weights.reshape(len(weights), -1)


def map_of_edges(
    weights: Float[Tensor, "edge head"], source: EdgeEnd, context: EdgeSum
) -> Float[Tensor, "1 head target source"]:
    """The weight of each target on each source, zero where no edge is; parallel edges add up."""
    columns, heads = source.nodes, weights.shape[1]
    weights = weights.detach()
    if context.is_mean:
        counts = torch.bincount(context.indices, minlength=context.targets)
        weights = weights / counts[context.indices, None]
    cells = context.indices * columns + source.indices
    flat = weights.new_zeros(heads, context.targets * columns)
    flat.index_add_(1, cells, weights.T.contiguous())
    return flat.view(1, heads, context.targets, columns)


def describe_size(heads: int, targets: int, sources: int) -> str | None:
    """The reason of the gap for a map that is too large; None if it is not."""
    numbers = heads * targets * sources
    if numbers <= MAX_NUMBERS:
        return None
    return (
        f"it attends along the edges of a graph, and its map of {targets:,} by {sources:,} nodes "
        f"for {heads} head(s) would have {numbers:,} numbers, more than {MAX_NUMBERS:,}; watch it "
        "on a smaller graph"
    )
