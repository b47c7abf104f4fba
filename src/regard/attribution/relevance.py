"""Relevance of Chefer et al.: inputs ranked by attention weights and the gradients by them."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.attribution.clean_run import CleanRun
from regard.attribution.gradients import example_gradients
from regard.attribution.layer_graph import HeadChoice, Layer, layer_graph
from regard.errors import InputError
from regard.types import AttentionMap, Trace

MOST_NUMBERS = 1 << 26  # relevances between two streams that are held in memory at once

# The relevance of the inputs of one stream to the tokens of another: (stream, origin) -> matrix
Relevances = dict[tuple[str, str], Tensor]


@check_first_argument
def relevance(
    trace: Trace, *, heads: HeadChoice = None, queries: str | None = None, keys: str | None = None
) -> Float[Tensor, "query key"]:
    """How relevant each input is to each token after the last layer (Chefer et al. 2021).

    Layer by layer A = E_h[(dy/dA * A)+] (eq. 5) goes into R <- R + A R where tokens attend to their
    own stream (eq. 6 and 7), and where they attend to another into
    R_sq <- R_sq + N(R_ss)^T A N(R_qq) and R_ss <- R_ss + A R_qs (eq. 8 to 11), in the order in
    which the maps ran. The trace must have values and gradients, as `capture_gradients` makes them.
    The row of the token that the objective reads, such as [CLS] or the last, is the explanation of
    that output. Streams are chosen as for `rollout`.

    >>> import torch, regard
    >>> from regard.attribution import relevance
    >>> from regard.tracing import Keep
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    >>> x = torch.randn(1, 5, 8, requires_grad=True)
    >>> with regard.watch(layer, keep=Keep(values=True, gradients=True)) as seen:
    ...     layer(x)[0, 0, 0].backward()
    >>> relevance(seen[0]).shape
    torch.Size([5, 5])
    """
    graph = layer_graph(trace, heads, queries, keys)
    largest = max(graph.sizes.values())
    if largest**2 > MOST_NUMBERS:
        raise InputError(
            f"relevance would hold {largest:,} x {largest:,} numbers; ask for one row of them with "
            "relevance_from(trace, query), or for a part of the trace"
        )
    known: Relevances = {
        (name, name): torch.eye(size, dtype=torch.float64) for name, size in graph.sizes.items()
    }
    for layer in graph.layers:
        attends_to_itself = layer.rows == layer.columns
        known |= (_add_self_attention if attends_to_itself else _add_cross_attention)(layer, known)
    streams = (graph.rows.stream, graph.columns.stream)
    sizes = [graph.sizes[name] for name in streams]
    matrix = known.get(streams, torch.zeros(*sizes, dtype=torch.float64))
    return matrix[torch.tensor(graph.rows.positions)][:, torch.tensor(graph.columns.positions)]


@check_first_argument
def relevance_from(
    trace: Trace, query: int, *, heads: HeadChoice = None, queries: str | None = None
) -> Float[Tensor, " key"]:
    """One row of the relevance of a stream to itself, for traces of any length.

    It is a vector times the layers from the last to the first, and nothing of size query x key is
    held. There is no such short form for a stream that attends to another one.
    """
    graph = layer_graph(trace, heads, queries, queries)
    stream = graph.rows.stream
    own_layers = [layer for layer in graph.layers if layer.rows == stream]
    if any(layer.columns != stream for layer in own_layers):
        raise InputError(
            f"{stream!r} looks at another stream, and then no row stands by itself; ask for "
            "relevance(trace), or for queries= of a stream that looks at itself only"
        )
    row = torch.zeros(graph.sizes[stream], dtype=torch.float64)
    row[graph.position_of_row(query)] = 1
    for layer in reversed(own_layers):
        added = torch.zeros(len(layer.map.columns), dtype=torch.float64)
        for tokens, strip in _positive_products(layer, row != 0):
            added += row[tokens] @ strip
        row.index_add_(0, layer.keys, added)
    return row[torch.tensor(graph.columns.positions)]


def token_relevance(run: CleanRun) -> Float[Tensor, " token"]:
    """The relevance of each token to the objective: the mean over the objective's rows."""
    trace = example_gradients(run.model, run.example, lambda output: run.objective(output)[0])
    last = run.last_map
    matrix = relevance(trace, queries=last.rows.stream, keys=last.columns.stream)
    rows = run.objective_rows() or list(range(len(last.rows)))
    return run.columns_to_tokens(matrix[rows].mean(dim=0))


def _add_self_attention(layer: Layer, known: Relevances) -> Relevances:
    """Equations 6 and 7: R <- R + A R, for the relevance of every stream to these tokens."""
    matrix = _layer_matrix(layer, known)
    return {
        (name, origin): own + matrix @ own
        for (name, origin), own in known.items()
        if name == layer.rows
    }


def _add_cross_attention(layer: Layer, known: Relevances) -> Relevances:
    """Equations 10 and 11: relevance of the other stream, and what it in turn has of this one."""
    rows, columns, matrix = layer.rows, layer.columns, _layer_matrix(layer, known)
    own, others = known[rows, rows], known[columns, columns]
    added = _normalise(own).mT @ matrix @ _normalise(others)
    updated = {(rows, columns): known.get((rows, columns), torch.zeros_like(added)) + added}
    if (columns, rows) in known:
        updated[rows, rows] = own + matrix @ known[columns, rows]
    return updated


def _normalise(square: Tensor) -> Tensor:
    """Equations 8 and 9: R - I with rows that sum to one, plus I; a zero row stays zero."""
    identity = torch.eye(len(square), dtype=square.dtype)
    rest = square - identity
    total = rest.sum(dim=1, keepdim=True)
    return rest / torch.where(total == 0, 1, total) + identity


def _layer_matrix(layer: Layer, known: Relevances) -> Float[Tensor, "query key"]:
    """Equation 5 for the whole layer, over all tokens of both streams."""
    sizes = (len(known[layer.rows, layer.rows]), len(known[layer.columns, layer.columns]))
    matrix = torch.zeros(sizes, dtype=torch.float64)
    for tokens, strip in _positive_products(layer):
        matrix[tokens[:, None], layer.keys] = strip
    return matrix


def _positive_products(
    layer: Layer, needed: Tensor | None = None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Equation 5, E_h[(dy/dA * A)+], for some rows at a time, with the rows' tokens."""
    part = layer.part(needed)
    if part is None:
        return
    gradient, values = _gradient_and_values(part)
    for run, weights in part.row_strips():
        # dy/dA = dy/d(context) . value, since context = sum of weights times values
        slope = gradient[:, run.start : run.stop] @ values.mT
        mean = (slope * weights.to(slope)).clamp_min(0).mean(dim=0)
        yield torch.tensor(part.rows[run].positions), mean.double().cpu()


def _gradient_and_values(attention_map: AttentionMap) -> tuple[Tensor, Tensor]:
    """The gradient by each head's context, and each head's values."""
    if attention_map.values is None or attention_map.gradient is None:
        missing = "values" if attention_map.values is None else "gradient"
        raise InputError(
            f"the map of {attention_map.site!r} has no {missing}; "
            "make the trace with regard.attribution.capture_gradients, or watch with "
            "keep=Keep(values=True, gradients=True) and call backward() inside the block"
        )
    gradient = attention_map.gradient
    dtype = torch.float64 if gradient.dtype == torch.float64 else torch.float32
    groups = attention_map.heads // len(attention_map.values)
    values = attention_map.values.repeat_interleave(groups, dim=0)
    return gradient.to(dtype), values.to(dtype)
