"""Attention rollout: what of each input is in a token at the end, if layers mix as they look."""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attribution.layers import Heads, Layer, Layers, layers
from regard.errors import InputError
from regard.types import Trace

MOST = 1 << 26  # shares that are held at once, for each pair of streams

Shares = dict[tuple[str, str], Tensor]  # from the tokens of a stream to the inputs of another


def rollout(
    trace: Trace, *, heads: Heads = None, queries: str | None = None, keys: str | None = None
) -> Float[Tensor, "query key"]:
    """The share of each input in each token after the last layer (Abnar & Zuidema 2020, section 3).

    The product over layers of 0.5 A + 0.5 I, A the mean of the heads, each row over its sum. In an
    encoder-decoder a cross map does the same with what the encoder has made of the source, so that
    the shares of source and target are one together. Rows and columns are those of the last map
    from the stream `queries` to the stream `keys`: by default from where the model ends to what it
    looks across at, or to itself.

    >>> import torch
    >>> from regard.attribution.rollout import rollout
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(2, 1, 2, 2)
    >>> rollout(Trace.from_weights(weights, ["我", "爱"]))
    tensor([[1.0000, 0.0000],
            [0.7500, 0.2500]], dtype=torch.float64)
    """
    found = layers(trace, heads, queries, keys)
    largest = max(found.sizes.values())
    if largest**2 > MOST:
        raise InputError(
            f"rollout would hold {largest:,} x {largest:,} shares; ask for one row of them with "
            "rollout_from(trace, query), or for a part of the trace"
        )
    shares: Shares = {
        (name, name): torch.eye(size, dtype=torch.float64) for name, size in found.sizes.items()
    }
    for layer in found.each:
        shares |= _mixed(layer, shares, found)
    place = (found.rows.stream, found.columns.stream)
    rows, columns = torch.tensor(found.rows.places), torch.tensor(found.columns.places)
    sizes = [found.sizes[name] for name in place]
    return shares.get(place, torch.zeros(*sizes, dtype=torch.float64))[rows][:, columns]


def _mixed(layer: Layer, shares: Shares, found: Layers) -> Shares:
    """What the tokens that look consist of after the layer."""
    mixed: Shares = {}
    for origin, size in found.sizes.items():
        own, others = (shares.get((name, origin)) for name in (layer.rows, layer.columns))
        if own is not None or others is not None:
            empty = torch.zeros(found.sizes[layer.rows], size, dtype=torch.float64)
            mixed[layer.rows, origin] = empty if own is None else own.clone()
    for strip in layer.strips():
        for (name, origin), whole in mixed.items():
            row = whole[strip.tokens] * strip.keeps[:, None]
            if (others := shares.get((layer.columns, origin))) is not None:
                row += strip.takes @ others[layer.keys]
            mixed[name, origin][strip.tokens] = row
    return mixed


def rollout_from(
    trace: Trace,
    query: int,
    *,
    heads: Heads = None,
    queries: str | None = None,
    keys: str | None = None,
) -> Float[Tensor, " key"]:
    """One row of the rollout, from the last layer back to the first: for traces of any length.

    Nothing of size query x key is held: each layer is a vector times strips of its map.

    >>> import torch
    >>> from regard.attribution.rollout import rollout_from
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[1.0, 0.0], [1.0, 0.0]]).expand(2, 1, 2, 2)
    >>> rollout_from(Trace.from_weights(weights, ["我", "爱"]), 1)
    tensor([0.7500, 0.2500], dtype=torch.float64)
    """
    found = layers(trace, heads, queries, keys)
    shares = {name: torch.zeros(size, dtype=torch.float64) for name, size in found.sizes.items()}
    shares[found.rows.stream][found.token(query)] = 1
    for layer in reversed(found.each):
        own = shares[layer.rows]
        kept, given = own.clone(), torch.zeros(len(layer.map.columns), dtype=torch.float64)
        for strip in layer.strips(own > 0):
            kept[strip.tokens] = own[strip.tokens] * strip.keeps
            given += own[strip.tokens] @ strip.takes
        shares[layer.rows] = kept
        shares[layer.columns].index_add_(0, layer.keys, given)
    return shares[found.columns.stream][torch.tensor(found.columns.places)]
