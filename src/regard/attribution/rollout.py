"""Attention rollout: the share of each input in each token, if layers mix tokens as they attend."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.attribution.clean_run import CleanRun
from regard.attribution.layer_graph import HeadChoice, Layer, LayerGraph, layer_graph
from regard.errors import InputError
from regard.types import Trace

MOST_SHARES = 1 << 26  # shares between two streams that are held in memory at once

# The shares of the inputs of one stream in the tokens of another: (stream, origin) -> matrix
Shares = dict[tuple[str, str], Tensor]


@check_first_argument
def rollout(
    trace: Trace, *, heads: HeadChoice = None, queries: str | None = None, keys: str | None = None
) -> Float[Tensor, "query key"]:
    """The share of each input in each token after the last layer (Abnar & Zuidema 2020, section 3).

    It is the product over layers of 0.5 A + 0.5 I, A the mean of the heads, each row divided by its
    sum. In an encoder-decoder a cross map mixes with what the encoder has made of the source, so
    that the shares of source and target sum to one together. Rows and columns are those of the last
    map from the stream `queries` to the stream `keys`: by default from the stream of the last map
    to the one that it attends to by cross-attention, or to itself.

    >>> import torch
    >>> from regard.attribution import rollout
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(2, 1, 2, 2)
    >>> rollout(Trace.from_weights(weights, ["我", "爱"]))
    tensor([[1.0000, 0.0000],
            [0.7500, 0.2500]], dtype=torch.float64)
    """
    graph = layer_graph(trace, heads, queries, keys)
    largest = max(graph.sizes.values())
    if largest**2 > MOST_SHARES:
        raise InputError(
            f"rollout would hold {largest:,} x {largest:,} shares; ask for one row of them with "
            "rollout_from(trace, query), or for a part of the trace"
        )
    shares: Shares = {
        (name, name): torch.eye(size, dtype=torch.float64) for name, size in graph.sizes.items()
    }
    for layer in graph.layers:
        shares |= _mix_layer(layer, shares, graph)
    streams = (graph.rows.stream, graph.columns.stream)
    rows, columns = torch.tensor(graph.rows.positions), torch.tensor(graph.columns.positions)
    sizes = [graph.sizes[name] for name in streams]
    return shares.get(streams, torch.zeros(*sizes, dtype=torch.float64))[rows][:, columns]


@check_first_argument
def rollout_from(
    trace: Trace,
    query: int,
    *,
    heads: HeadChoice = None,
    queries: str | None = None,
    keys: str | None = None,
) -> Float[Tensor, " key"]:
    """One row of the rollout, computed from the last layer back to the first.

    It works for traces of any length: each layer is a vector times strips of its map, and nothing
    of size query x key is held.

    >>> import torch
    >>> from regard.attribution import rollout_from
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(2, 1, 2, 2)
    >>> rollout_from(Trace.from_weights(weights, ["我", "爱"]), 1)
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    graph = layer_graph(trace, heads, queries, keys)
    shares = {name: torch.zeros(size, dtype=torch.float64) for name, size in graph.sizes.items()}
    shares[graph.rows.stream][graph.position_of_row(query)] = 1
    for layer in reversed(graph.layers):
        own = shares[layer.rows]
        kept, passed_on = own.clone(), torch.zeros(len(layer.map.columns), dtype=torch.float64)
        for strip in layer.strips(own > 0):
            kept[strip.tokens] = own[strip.tokens] * strip.keeps
            passed_on += own[strip.tokens] @ strip.takes
        shares[layer.rows] = kept
        shares[layer.columns].index_add_(0, layer.keys, passed_on)
    return shares[graph.columns.stream][torch.tensor(graph.columns.positions)]


def token_rollout(run: CleanRun) -> Float[Tensor, " token"]:
    """The rollout share of each token in the objective: the mean over the objective's rows."""
    shares = rollout(run.trace)
    rows = run.objective_rows() or list(range(len(run.last_map.rows)))
    return run.columns_to_tokens(shares[rows].mean(dim=0))


def _mix_layer(layer: Layer, shares: Shares, graph: LayerGraph) -> Shares:
    """The shares in the tokens of the layer's rows, after the layer."""
    mixed: Shares = {}
    for origin, size in graph.sizes.items():
        own, others = (shares.get((name, origin)) for name in (layer.rows, layer.columns))
        if own is not None or others is not None:
            empty = torch.zeros(graph.sizes[layer.rows], size, dtype=torch.float64)
            mixed[layer.rows, origin] = empty if own is None else own.clone()
    for strip in layer.strips():
        for (name, origin), matrix in mixed.items():
            rows = matrix[strip.tokens] * strip.keeps[:, None]
            if (others := shares.get((layer.columns, origin))) is not None:
                rows += strip.takes @ others[layer.keys]
            mixed[name, origin][strip.tokens] = rows
    return mixed
