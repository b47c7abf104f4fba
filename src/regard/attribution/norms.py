"""How much each key gives, not only how much it is looked at: weights times lengths of vectors."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.types import AttentionMap, Trace

Vectors = Literal["projected values", "values"]

_SPAN = 256  # keys whose vectors are held at once


@dataclass(frozen=True, eq=False)
class Norms:
    """The lengths ||f(x)|| of what each head takes of each key, and so of each weight times it.

    `of` says which vectors these are: "projected values" are f(x) = (x W_V + b_V) W_O (Kobayashi et
    al. 2020); where the flow of data did not show W_O they are "values", x W_V + b_V alone.
    """

    of: Vectors
    lengths: Float[Tensor, "head key"]
    map: AttentionMap

    def weights(self, head: int | None = None) -> Float[Tensor, "*head query key"]:
        """||a f(x)|| of a head, or of all heads; refused where they are too many."""
        lengths = self.lengths if head is None else self.lengths[head]
        return self.map.weights(head).double() * lengths[..., None, :]

    def window(self, head: int, rows: range, columns: range) -> Float[Tensor, "query key"]:
        """||a f(x)|| of a rectangle of a head, computed for it alone."""
        found = self.map.window(head, rows, columns).mean.double()
        return found * self.lengths[head, columns.start : columns.stop]

    def joined(self, rows: range | None = None) -> Float[Tensor, "query key"]:
        """||sum over heads of a f(x)||, of all rows or some: what the layer takes of each key.

        Heads may cancel one another, so it is no sum of theirs (Kobayashi et al. 2020).
        Values that were not projected have no common space to be summed in.
        """
        if self.of != "projected values":
            raise InputError(
                f"the heads of {self.map.site!r} can be joined in the space of the model only, and "
                "its output projection was not seen; take .weights() of each head"
            )
        rows = range(len(self.map.rows)) if rows is None else rows
        part = self.map.part(rows, range(len(self.map.columns)))
        products = _products(part)
        found = []
        for _, weights in part.strips():
            weights = weights.double()
            squares = torch.einsum("gqk,kgh,hqk->qk", weights, products, weights)
            found.append(squares.clamp_min(0).sqrt())
        return torch.cat(found)


def value_norms(trace: Trace, site: str) -> Norms:
    """The norms of one site, of a trace with values (Kobayashi et al. 2020).

    Watch with `keep=Keep(values=True, outputs=True)`, which keeps W_O too where contexts go
    straight into it.

    >>> import torch, regard
    >>> from regard.attribution.norms import value_norms
    >>> from regard.tracing import Keep
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(1, 5, 8)
    >>> with regard.watch(attention, keep=Keep(values=True, outputs=True)) as seen:
    ...     _ = attention(x, x, x)
    >>> found = value_norms(seen[0], "MultiheadAttention")
    >>> found.of, found.lengths.shape
    ('projected values', torch.Size([2, 5]))
    """
    each = trace[site]
    if each.values is None:
        raise InputError(
            f"the map of {site!r} keeps no values, whose lengths are asked for; watch again with "
            "keep=Keep(values=True, outputs=True)"
        )
    projected = each.output is not None
    lengths = [
        _vectors(each, range(start, min(start + _SPAN, len(each.columns)))).norm(dim=-1)
        for start in range(0, len(each.columns), _SPAN)
    ]
    return Norms("projected values" if projected else "values", torch.cat(lengths).mT, each)


def _vectors(each: AttentionMap, keys: range) -> Float[Tensor, "key head dim"]:
    """f(x) of some keys, for each head; groups of heads share values."""
    assert each.values is not None
    values = each.values[:, keys.start : keys.stop].double()
    values = values.repeat_interleave(each.heads // len(values), dim=0)
    if each.output is not None:
        values = values @ each.output.double()
    return values.transpose(0, 1)


def _products(each: AttentionMap) -> Float[Tensor, "key head other"]:
    """The inner products of what the heads take of each key."""
    found = []
    for start in range(0, len(each.columns), _SPAN):
        vectors = _vectors(each, range(start, min(start + _SPAN, len(each.columns))))
        found.append(vectors @ vectors.mT)
    return torch.cat(found)
