"""The values that attribution methods return: a number for each input, and how it was computed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.types.maps import AttentionMap
from regard.types.tables import data_frame
from regard.types.tokens import Tokens

ErasureMethod = Literal["mask-token", "attention", "delete"]
VectorKind = Literal["projected values", "values"]
Units = Float[Tensor, " unit"]

_KEYS_AT_ONCE = 256  # keys whose value vectors are held in memory at the same time
_SHOWN = 3  # tokens that a repr names


@dataclass(frozen=True, eq=False)
class Attribution:
    """How much each input token contributed to one output, according to one method.

    `objective` names the output that is explained, for instance "next token", and `output` is its
    value for the unchanged input. What the numbers of `values` mean is the method's own: shares of
    one for rollout, signed changes of the output for gradient and occlusion. NaN marks tokens that
    the method cannot judge, such as special tokens, which occlusion never erases.

    >>> import torch
    >>> from regard.types import Attribution, Tokens
    >>> Attribution("rollout", "next token", 0.5, Tokens(("我", "爱")), torch.tensor([0.25, 0.75]))
    <Attribution of 'next token' by rollout: 爱 0.75, 我 0.25>
    """

    method: str
    objective: str
    output: float
    tokens: Tokens
    values: Float[Tensor, " token"]

    @property
    def ranking(self) -> list[int]:
        """The positions of the tokens, those with the largest values first, unknown ones last."""
        known = self.values.nan_to_num(nan=-torch.inf)
        order: list[int] = known.argsort(descending=True, stable=True).tolist()
        return order

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with one row per token."""
        return data_frame({"token": list(self.tokens.texts), "value": self.values.tolist()})

    def __repr__(self) -> str:
        texts, unknown = self.tokens.texts, self.values.isnan().tolist()
        named = [f"{texts[n]} {float(self.values[n]):.3g}" for n in self.ranking if not unknown[n]]
        left_out = [text for text, is_unknown in zip(texts, unknown, strict=True) if is_unknown]
        rest = f"; left out: {_shorten(left_out)}" if left_out else ""
        return f"<Attribution of {self.objective!r} by {self.method}: {_shorten(named)}{rest}>"


@dataclass(frozen=True, eq=False)
class FlowBounds:
    """The maximum flow from one token to each input, between two proven bounds.

    `least` is a flow that the graph can carry. `most` is the capacity of a cut between the two
    tokens, to which all capacity that was left out or rounded down has been added back.
    """

    least: Float[Tensor, " key"]
    most: Float[Tensor, " key"]

    @property
    def error(self) -> float:
        """The largest amount by which `least` may be too small, over all inputs."""
        return float((self.most - self.least).max())


class LeftOut(NamedTuple):
    """A token that was never erased, and why: "special token" or "needed by the objective"."""

    position: int
    text: str
    reason: str


@dataclass(frozen=True, eq=False)
class Occlusion:
    """The output without each of the words, one at a time.

    `objective` names the output, such as "next token", and `full_value` is its value for the whole
    input. `units` has the token positions of each word, `texts` the words, `without` the value of
    the objective when that word is erased, and `by` the way in which words were erased. `left_out`
    are the tokens of no word: they were never erased, so that nothing is known about them.

    >>> import torch
    >>> from regard.types import LeftOut, Occlusion
    >>> left_out = (LeftOut(2, "</s>", "special token"),)
    >>> without = torch.tensor([0.5, 0.25])
    >>> Occlusion("class", "delete", 0.75, ("I", "love"), ((0,), (1,)), without, left_out)
    <Occlusion of 'class' by delete: love 0.5, I 0.25; left out: </s> (special token)>
    """

    objective: str
    by: ErasureMethod
    full_value: float
    texts: tuple[str, ...]
    units: tuple[tuple[int, ...], ...]
    without: Units
    left_out: tuple[LeftOut, ...] = ()

    @property
    def effect(self) -> Units:
        """How much the output falls without each word; negative where it rises."""
        return self.full_value - self.without

    def __repr__(self) -> str:
        order = self.effect.argsort(descending=True, stable=True).tolist()
        named = [f"{self.texts[n]} {float(self.effect[n]):.3g}" for n in order]
        left_out = [f"{token.text} ({token.reason})" for token in self.left_out]
        rest = f"; left out: {_shorten(left_out)}" if left_out else ""
        return f"<Occlusion of {self.objective!r} by {self.by}: {_shorten(named)}{rest}>"


@dataclass(frozen=True, eq=False)
class ValueNorms:
    """The norm ||f(x)|| of the vector that each head takes from each key, before it is weighted.

    The contribution of a key to a query is the weight a times that vector, of norm ||a f(x)||.

    `of` says which vectors are measured: "projected values" are f(x) = (x W_V + b_V) W_O (Kobayashi
    et al. 2020). Where the output projection W_O was not captured they are "values", x W_V + b_V.
    """

    of: VectorKind
    lengths: Float[Tensor, "head key"]
    map: AttentionMap

    def weights(self, head: int | None = None) -> Float[Tensor, "*head query key"]:
        """||a f(x)|| of one head or of all heads; refused where the map is too large to hold."""
        lengths = self.lengths if head is None else self.lengths[head]
        return self.map.weights(head).double() * lengths[..., None, :]

    def window(self, head: int, rows: range, columns: range) -> Float[Tensor, "query key"]:
        """||a f(x)|| of a rectangle of a head, computed for that rectangle alone."""
        weights = self.map.window(head, rows, columns).mean.double()
        return weights * self.lengths[head, columns.start : columns.stop]

    def summed_over_heads(self, rows: range | None = None) -> Float[Tensor, "query key"]:
        """||sum over heads of a f(x)||, of all rows or some: what the layer takes from each key.

        Vectors of different heads may cancel, so this is not the sum of their norms (Kobayashi et
        al. 2020). Values that were not projected lie in no common space and cannot be added.
        """
        if self.of != "projected values":
            raise InputError(
                f"the heads of {self.map.site!r} can be added up only after the output projection, "
                "which was not captured; take .weights() of each head instead"
            )
        rows = range(len(self.map.rows)) if rows is None else rows
        part = self.map.part(rows, range(len(self.map.columns)))
        products = _inner_products(part)
        strips = []
        for _, weights in part.row_strips():
            weights = weights.double()
            squares = torch.einsum("gqk,kgh,hqk->qk", weights, products, weights)
            strips.append(squares.clamp_min(0).sqrt())
        return torch.cat(strips)


def value_lengths(attention_map: AttentionMap) -> Float[Tensor, "head key"]:
    """The norms ||f(x)|| of each key's vector for each head, a span of keys at a time."""
    lengths = [
        _value_vectors(attention_map, keys).norm(dim=-1) for keys in _key_spans(attention_map)
    ]
    return torch.cat(lengths).mT


def _value_vectors(attention_map: AttentionMap, keys: range) -> Float[Tensor, "key head dim"]:
    """f(x) of some keys for each head."""
    assert attention_map.values is not None
    values = attention_map.values[:, keys.start : keys.stop].double()
    # in grouped-query attention several heads share the values of one group
    values = values.repeat_interleave(attention_map.heads // len(values), dim=0)
    if attention_map.output_projection is not None:
        values = values @ attention_map.output_projection.double()
    return values.transpose(0, 1)


def _inner_products(attention_map: AttentionMap) -> Float[Tensor, "key head other"]:
    """The inner products f_g(x) . f_h(x) of each two heads, for every key."""
    spans = (_value_vectors(attention_map, keys) for keys in _key_spans(attention_map))
    return torch.cat([vectors @ vectors.mT for vectors in spans])


def _key_spans(attention_map: AttentionMap) -> list[range]:
    """All keys of a map, in spans that are small enough to hold their vectors in memory."""
    count = len(attention_map.columns)
    starts = range(0, count, _KEYS_AT_ONCE)
    return [range(start, min(start + _KEYS_AT_ONCE, count)) for start in starts]


def _shorten(named: Sequence[str]) -> str:
    """The first few tokens with their values, for a repr."""
    return ", ".join(named[:_SHOWN]) + (", …" if len(named) > _SHOWN else "")
