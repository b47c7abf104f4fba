"""Relevance: which inputs an output depends on, by weights and the gradient that reaches them."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attribution.layers import Heads, Layer, layers
from regard.errors import InputError
from regard.types import AttentionMap, Trace

MOST = 1 << 26  # relevances that are held at once, for each pair of streams

Relevances = dict[tuple[str, str], Tensor]  # of the inputs of one stream to tokens of another


def relevance(
    trace: Trace, *, heads: Heads = None, queries: str | None = None, keys: str | None = None
) -> Float[Tensor, "query key"]:
    """How relevant each input is to each token after the last layer (Chefer et al. 2021).

    Layer by layer A = E_h[(dy/dA * A)+] (eq. 5) goes into R <- R + A R where tokens look at their
    own stream (eq. 6 and 7), and where they look across into R_sq <- R_sq + N(R_ss)^T A N(R_qq) and
    R_ss <- R_ss + A R_qs (eq. 8 to 11), in the order in which the maps ran. The trace must have
    values and gradients, as `attribution.gradients` makes them. The row of the token that the
    objective reads, such as [CLS] or the last, is the explanation of that output. Streams are
    chosen as for `rollout`.

    >>> import torch, regard
    >>> from regard.attribution.relevance import relevance
    >>> from regard.tracing import Keep
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    >>> x = torch.randn(1, 5, 8, requires_grad=True)
    >>> with regard.watch(layer, keep=Keep(values=True, gradients=True)) as seen:
    ...     layer(x)[0, 0, 0].backward()
    >>> relevance(seen[0]).shape
    torch.Size([5, 5])
    """
    found = layers(trace, heads, queries, keys)
    largest = max(found.sizes.values())
    if largest**2 > MOST:
        raise InputError(
            f"relevance would hold {largest:,} x {largest:,} numbers; ask for one row of them with "
            "relevance_from(trace, query), or for a part of the trace"
        )
    known: Relevances = {
        (name, name): torch.eye(size, dtype=torch.float64) for name, size in found.sizes.items()
    }
    for layer in found.each:
        known |= _itself(layer, known) if layer.rows == layer.columns else _across(layer, known)
    place = (found.rows.stream, found.columns.stream)
    sizes = [found.sizes[name] for name in place]
    whole = known.get(place, torch.zeros(*sizes, dtype=torch.float64))
    return whole[torch.tensor(found.rows.places)][:, torch.tensor(found.columns.places)]


def relevance_from(
    trace: Trace, query: int, *, heads: Heads = None, queries: str | None = None
) -> Float[Tensor, " key"]:
    """One row of the relevance of a stream to itself, for traces of any length.

    It is a vector times the layers from the last to the first, of which nothing of size
    query x key is held. There is no such short form where the stream looks across at another.
    """
    found = layers(trace, heads, queries, queries)
    stream = found.rows.stream
    own = [each for each in found.each if each.rows == stream]
    if any(each.columns != stream for each in own):
        raise InputError(
            f"{stream!r} looks at another stream, and then no row stands by itself; ask for "
            "relevance(trace), or for queries= of a stream that looks at itself only"
        )
    row = torch.zeros(found.sizes[stream], dtype=torch.float64)
    row[found.token(query)] = 1
    for layer in reversed(own):
        added = torch.zeros(len(layer.map.columns), dtype=torch.float64)
        for tokens, strip in _strips(layer, row != 0):
            added += row[tokens] @ strip
        row.index_add_(0, layer.keys, added)
    return row[torch.tensor(found.columns.places)]


def _itself(layer: Layer, known: Relevances) -> Relevances:
    """Equations 6 and 7: what the tokens have of each stream, they take from one another."""
    whole = _whole(layer, known)
    return {
        (name, origin): each + whole @ each
        for (name, origin), each in known.items()
        if name == layer.rows
    }


def _across(layer: Layer, known: Relevances) -> Relevances:
    """Equations 10 and 11: tokens take from another stream what it is, and what it has of them."""
    rows, columns, whole = layer.rows, layer.columns, _whole(layer, known)
    own, others = known[rows, rows], known[columns, columns]
    added = _normalised(own).mT @ whole @ _normalised(others)
    found = {(rows, columns): known.get((rows, columns), torch.zeros_like(added)) + added}
    if (columns, rows) in known:
        found[rows, rows] = own + whole @ known[columns, rows]
    return found


def _normalised(square: Tensor) -> Tensor:
    """Equations 8 and 9: without what each token is of itself, each row sums to one; and with it.

    A row of nothing stays so.
    """
    one = torch.eye(len(square), dtype=square.dtype)
    rest = square - one
    total = rest.sum(dim=1, keepdim=True)
    return rest / torch.where(total == 0, 1, total) + one


def _whole(layer: Layer, known: Relevances) -> Float[Tensor, "query key"]:
    sizes = (len(known[layer.rows, layer.rows]), len(known[layer.columns, layer.columns]))
    found = torch.zeros(sizes, dtype=torch.float64)
    for tokens, strip in _strips(layer):
        found[tokens[:, None], layer.keys] = strip
    return found


def _strips(layer: Layer, wanted: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor]]:
    """Equation 5 for some rows at a time, with the tokens that they are."""
    part = layer.part(wanted)
    if part is None:
        return
    gradient, values = _sides(part)
    for run, weights in part.strips():
        slope = gradient[:, run.start : run.stop] @ values.mT
        mean = (slope * weights.to(slope)).clamp_min(0).mean(dim=0)
        yield torch.tensor(part.rows[run].places), mean.double().cpu()


def _sides(each: AttentionMap) -> tuple[Tensor, Tensor]:
    """Gradients and values, one of each for each head."""
    if each.values is None or each.gradient is None:
        raise InputError(
            f"the map of {each.site!r} has no {'values' if each.values is None else 'gradient'}; "
            "make the trace with regard.attribution.gradients, or watch with "
            "keep=Keep(values=True, gradients=True) and call backward() inside the block"
        )
    kind = torch.float64 if each.gradient.dtype == torch.float64 else torch.float32
    values = each.values.repeat_interleave(each.heads // len(each.values), dim=0)
    return each.gradient.to(kind), values.to(kind)
