"""How well a ranking of tokens explains an output: erasure curves, and agreement of rankings.

All are functions of a model's outputs, such as probabilities: `full` is the output for the whole
input, and a curve has one output for each number of tokens that were erased, or kept alone. With
the probability 0.75 for the whole input, and 0.5 and 0.25 without the first and the first two
tokens, `comprehensiveness` is 0.25 and 0.5.
"""

from collections.abc import Sequence
from math import ceil

import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import InputError, ShapeError

SHARES = (0.01, 0.05, 0.10, 0.20, 0.50)  # of tokens, the bins of DeYoung et al. 2020

Curve = Float[Tensor, "*draw step"]
Importance = Float[Tensor, " token"]


@check_first_argument
def comprehensiveness(full: float, without: Curve) -> Curve:
    """How much an output falls without tokens, m(x) - m(x without r) (DeYoung et al. 2020, eq. 1).

    High if the erased tokens mattered.

    >>> import torch
    >>> from regard.measures.faithfulness import comprehensiveness
    >>> comprehensiveness(0.75, torch.tensor([0.5, 0.25]))
    tensor([0.2500, 0.5000])
    """
    return full - without


@check_first_argument
def sufficiency(full: float, alone: Curve) -> Curve:
    """How much the output falls with the tokens alone, m(x) - m(r) (DeYoung et al. 2020, eq. 2).

    Low if the tokens are enough.

    >>> import torch
    >>> from regard.measures.faithfulness import sufficiency
    >>> sufficiency(0.75, torch.tensor([0.25, 0.75]))
    tensor([0.5000, 0.0000])
    """
    return full - alone


@check_first_argument
def area_over_curve(falls: Curve) -> Float[Tensor, "*draw"]:
    """AOPC, the area over the perturbation curve: the mean fall over all steps.

    1 / (L + 1) times the sum over 0 .. L steps (Samek et al. 2017), or over L bins of shares of
    the tokens (DeYoung et al. 2020, section 4.2). Step 0, no perturbation, has a fall of 0.

    >>> import torch
    >>> from regard.measures.faithfulness import area_over_curve
    >>> area_over_curve(torch.tensor([0.3, 0.6]))
    tensor(0.3000)
    """
    if falls.shape[-1] == 0:
        raise ShapeError("expected the falls of at least one step, got none")
    return falls.sum(dim=-1) / (falls.shape[-1] + 1)


@check_first_argument
def bin_sizes(shares: Sequence[float], count: int) -> tuple[int, ...]:
    """The number of tokens that each share of `count` tokens is, rounded up; each number once.

    >>> from regard.measures.faithfulness import SHARES, bin_sizes
    >>> bin_sizes(SHARES, 20), bin_sizes(SHARES, 3)
    ((1, 2, 4, 10), (1, 2))
    """
    if count < 1 or not shares or not all(0 < share <= 1 for share in shares):
        raise InputError(
            f"expected shares between 0 and 1 of at least one token, got {list(shares)} of {count}"
        )
    # a share of 0.07 of 100 is 7.000000000000001 in floating point
    return tuple(sorted({max(1, ceil(round(share * count, 9))) for share in shares}))


@check_first_argument
def ranking(importance: Importance) -> list[int]:
    """The positions of tokens in the order of their importance; of equals the first comes first.

    >>> import torch
    >>> from regard.measures.faithfulness import ranking
    >>> ranking(torch.tensor([0.1, 0.7, 0.1, 0.1]))
    [1, 0, 2, 3]
    """
    if not bool(importance.isfinite().all()):
        raise InputError(f"expected a finite score for each token, got {importance.tolist()}")
    order: list[int] = importance.argsort(descending=True, stable=True).tolist()
    return order


@check_first_argument
def kendall(one: Importance, other: Importance) -> float:
    """Kendall's tau-b: agreement of two rankings by pairs, -1 to 1, ties left out (Kendall 1945).

    Jain and Wallace 2019, section 4.1, compare attention with gradients and leave-one-out by it.
    NaN where one ranking has the same importance for all. It costs token x token numbers.

    >>> import torch
    >>> from regard.measures.faithfulness import kendall
    >>> round(kendall(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0])), 3)
    0.333
    """
    _check_pair(one, other)
    first, second = _pair_signs(one), _pair_signs(other)
    agreeing = (first * second).sum()
    untied = (first.abs().sum() * second.abs().sum()).sqrt()
    return float(agreeing / untied)


@check_first_argument
def spearman(one: Importance, other: Importance) -> float:
    """Spearman's rho: the correlation of ranks, equals sharing their mean rank (Spearman 1904).

    >>> import torch
    >>> from regard.measures.faithfulness import spearman
    >>> spearman(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 3.0, 2.0]))
    0.5
    """
    _check_pair(one, other)
    # the sum of signs is twice a mean rank, up to a constant
    first, second = _pair_signs(one).sum(dim=1), _pair_signs(other).sum(dim=1)
    return float((first @ second) / ((first @ first) * (second @ second)).sqrt())


def _pair_signs(importance: Importance) -> Float[Tensor, "token token"]:
    """1 where the first of two tokens ranks above the second, 0 for a tie, -1 below."""
    values = importance.detach().cpu().double()
    return torch.sign(values[:, None] - values)


def _check_pair(one: Importance, other: Importance) -> None:
    """Refuse two rankings that do not have one number each for the same tokens."""
    if one.shape != other.shape or one.dim() != 1:
        raise ShapeError(
            "expected two scores of each token to compare, got "
            f"{tuple(one.shape)} and {tuple(other.shape)}"
        )
