"""The product of weights and values in attention written by hand: which axis is which."""

import string
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.tracing.dataflow.products import Product

Sizes = tuple[int, int, int, int]  # batch, heads, queries, keys


@dataclass(frozen=True)
class Letters:
    """The axes of a product as einsum names them, and what each is to attention.

    `lead` are those of batch and heads, `query` may be missing where there is one query only.
    """

    weights: str
    values: str
    result: str
    lead: str
    query: str
    key: str
    dim: str


@dataclass(frozen=True, eq=False)
class Mixture:
    """A product with its axes told: each side with those of attention, and back again."""

    letters: Letters
    sizes: Sizes
    place: int
    operands: tuple[Tensor, Tensor]

    @property
    def weights(self) -> Float[Tensor, "batch head query key"]:
        """The weights as they go into the product, after dropout."""
        axes = self.letters
        order = _order(axes.weights, axes.lead + axes.query + axes.key)
        return self.operands[self.place].permute(order).reshape(self.sizes)

    @property
    def value(self) -> Float[Tensor, "batch key_head key value_dim"]:
        """The values that the weights mix; heads may share them."""
        axes, values = self.letters, self.operands[1 - self.place]
        sizes = dict(zip(axes.weights, self.operands[self.place].shape, strict=True))
        missing = "".join(letter for letter in axes.lead if letter not in axes.values)
        values = values[(...,) + (None,) * len(missing)]
        values = values.permute(_order(axes.values + missing, axes.lead + axes.key + axes.dim))
        batch, heads, _, keys = self.sizes
        if len(axes.lead) == 2:
            return values.expand(batch, *values.shape[1:])
        lead = [sizes[letter] for letter in axes.lead]
        return values.expand(*lead, *values.shape[-2:]).reshape(batch, heads, keys, -1)

    def operand(self, weights: Float[Tensor, "batch head query key"]) -> Tensor:
        """Weights with four axes as the product takes them."""
        axes, like = self.letters, self.operands[self.place]
        order = _order(axes.weights, axes.lead + axes.query + axes.key)
        return _back(weights.to(like), order, like.shape)

    def context(self, result: Tensor) -> Float[Tensor, "batch head query value_dim"]:
        """The product's result with the axes of a context."""
        axes = self.letters
        order = _order(axes.result, axes.lead + axes.query + axes.dim)
        return result.permute(order).reshape(*self.sizes[:3], -1)

    def result(
        self, context: Float[Tensor, "batch head query value_dim"], like: Tensor
    ) -> Float[Tensor, "..."]:
        """A context as the product gives it."""
        axes = self.letters
        order = _order(axes.result, axes.lead + axes.query + axes.dim)
        return _back(context.to(like), order, like.shape)


def told(product: Product, place: int, weights: Tensor) -> Mixture | None:
    """How a product mixes values by one of its factors, the weights, given with four axes.

    None if none can tell. Names of axes may deceive, as those of heads and examples that changed
    places: numbers decide.
    """
    found = _letters(*_axes(product, place))
    if found is None:
        return None
    mixture = Mixture(found, _sizes(weights), place, (product.left, product.right))
    operand = mixture.operands[place]
    if operand.numel() != weights.numel() or not _alike(mixture.weights, weights):
        return None
    return mixture


def _sizes(weights: Tensor) -> Sizes:
    batch, heads, queries, keys = weights.shape
    return batch, heads, queries, keys


def _axes(product: Product, place: int) -> tuple[str, str, str]:
    """The letters of the weights, of the values and of the result."""
    factors, count = (product.left, product.right), 0
    names = list[str]()
    for tensor, side in zip(factors, product.sides, strict=True):
        axes = range(-tensor.dim(), 0)
        # a letter for each axis of the result, a capital for what is summed over
        letters = [
            string.ascii_lowercase[side.axes[axis]] if axis in side.axes else "K" for axis in axes
        ]
        names.append("".join(letters))
        count = max(count, *(-axis for axis in side.axes.values()), 0)
    result = "".join(string.ascii_lowercase[axis] for axis in range(-count, 0))
    return names[place], names[1 - place], result


def _letters(weights: str, values: str, result: str) -> Letters | None:
    """What each axis is to attention: that which is summed over is the key."""
    summed = [each for each in weights if each in values and each not in result]
    dims = [each for each in values if each not in weights]
    rest = [each for each in weights if each not in summed]
    own = [each for each in rest if each not in values]
    query = own[-1:]
    lead = [each for each in rest if each not in query]
    if len(summed) != 1 or len(dims) != 1 or len(lead) > 2:
        return None
    if {*result} != {*lead, *query, *dims} or len({*weights}) + 1 != len({*weights, *values}):
        return None
    return Letters(weights, values, result, "".join(lead), "".join(query), summed[0], dims[0])


def _alike(operand: Tensor, weights: Tensor) -> bool:
    """Whether both are the same weights, up to dropout and its factor."""
    kept = weights.to(operand) * (operand != 0)
    factor = operand.sum() / kept.sum().clamp_min(1e-30)
    return torch.allclose(operand, kept * factor, rtol=2e-2, atol=1e-4)


def _order(letters: str, wanted: str) -> list[int]:
    return [letters.index(each) for each in wanted]


def _back(whole: Tensor, order: list[int], sizes: torch.Size) -> Tensor:
    """A tensor whose axes were put in this order and joined, as it was before."""
    inverse = [order.index(axis) for axis in range(len(order))]
    return whole.reshape([sizes[axis] for axis in order]).permute(inverse)
