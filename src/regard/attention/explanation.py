"""The intermediate values of attention on one small example, for reading and drawing."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from regard.arguments import check_type
from regard.attention.inputs import admit, check_finite
from regard.attention.mechanism import SCALED_DOT, Mechanism
from regard.errors import InputError, ShapeError
from regard.masks import Mask

_LARGEST = 1 << 22  # elements of query x key x dim


@dataclass(frozen=True)
class Explanation:
    """Every intermediate value from scores to context, in the order of the computation."""

    similarities: Float[Tensor, "query key"]
    seen: Bool[Tensor, "query key"]
    weights: Float[Tensor, "query key"]
    weighted_values: Float[Tensor, "query key dim"]
    context: Float[Tensor, "query dim"]


def explain(
    query: Float[Tensor, "query query_dim"],
    key: Float[Tensor, "key key_dim"],
    value: Float[Tensor, "key dim"],
    mechanism: Mechanism = SCALED_DOT,
    mask: Mask | None = None,
) -> Explanation:
    """The three steps of attention as values: similarities, weights and the weighted sum.

    The similarities are the scores with the mechanism's bias, before the mask.

    >>> import torch, regard
    >>> steps = regard.explain(torch.zeros(1, 2), torch.zeros(2, 2), torch.tensor([[2.0], [4.0]]))
    >>> steps.weights.tolist(), steps.weighted_values[0].tolist(), steps.context.tolist()
    ([[0.5, 0.5]], [[1.0], [2.0]], [[3.0]])
    """
    check_type(query, Tensor, "explain", "query")
    if not query.dim() == key.dim() == value.dim() == 2:
        raise ShapeError(
            "explain expected one example, query, key and value each with the axes (length dim), "
            f"got {tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}"
        )
    numbers = len(query) * value.numel()
    if numbers > _LARGEST:
        raise InputError(
            f"explain is for small examples: query x key x dim may be {_LARGEST:,} numbers, got "
            f"{numbers:,}; use attend and weights"
        )
    mechanism.score.check(query.shape[1], key.shape[1])
    inputs = admit(query, key, value)
    rows, terms = range(len(query)), mechanism.terms(mask, None, 0)
    terms.mask.check(1, 1, len(query), len(key))
    unmasked = type(terms)(bias=terms.bias)
    weights = mechanism.weigh(inputs, terms, rows)[0, 0]
    check_finite(weights, inputs)
    weighted = weights[:, :, None] * value[None]
    return Explanation(
        similarities=mechanism.scores(inputs, unmasked, rows)[0, 0],
        seen=terms.mask.dense(len(query), len(key), device=query.device)[0, 0].expand_as(weights),
        weights=weights,
        weighted_values=weighted,
        context=weighted.sum(dim=1),
    )
