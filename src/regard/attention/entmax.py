"""Sparse alternatives to the softmax.

Both functions expect scores from which the maximum of the row was subtracted, so that the largest
score of each row is zero.
"""

import torch
from jaxtyping import Float
from torch import Tensor

Rows = Float[Tensor, "*row key"]
PerRow = Float[Tensor, "*row 1"]  # one number for each row

_STEPS = 40  # of Newton's method, at most


def sparsemax(scores: Rows) -> Rows:
    """max(s - tau, 0) with tau such that the row sums to one (Martins & Astudillo 2016, alg. 1).

    The support (the keys with weight) is found by sorting. tau is written as the mean of the
    support's scores minus 1 / size of the support, so that autograd gives the paper's Jacobian
    (proposition 2) without a backward pass of our own.
    """
    scores = scores.clamp_min(-2.0)  # a score more than 1 below the best is never in the support
    ranked = scores.detach().sort(dim=-1, descending=True).values
    rank = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    inside = 1.0 + rank * ranked > ranked.cumsum(dim=-1)
    count = inside.sum(dim=-1, keepdim=True)
    limit = ranked.gather(-1, count - 1)
    support = (scores >= limit).to(scores.dtype)
    tau = ((scores * support).sum(dim=-1, keepdim=True) - 1.0) / support.sum(dim=-1, keepdim=True)
    return (scores - tau).clamp_min(0.0)


def entmax(scores: Rows, alpha: Float[Tensor, "..."]) -> Rows:
    """alpha-entmax for 1 < alpha <= 2 (Peters et al. 2019, eq. 5), as a deformed softmax.

    With r = alpha - 1 the weights are exp_r(s - sigma), where exp_r(z) = (1 + r z)_+^(1/r) tends
    to exp(z) and sigma to the logsumexp as alpha tends to 1. The sum of the weights is a convex
    decreasing function of sigma, so Newton's method from the left approaches the root where it is
    one without overshooting. Only the last step runs under autograd: by the implicit function
    theorem it gives the gradients to scores and alpha (Correia et al. 2019, proposition 1).
    """
    r = (alpha - 1.0).clamp_min(1e-6)
    scores = torch.maximum(scores, -1.0 / r.detach() - 1.0)  # a lower score has zero weight anyway
    with torch.no_grad():
        sigma = torch.zeros_like(scores[..., :1])
        for _ in range(_STEPS):
            step, converged = _newton_step(scores, sigma, r)
            sigma = sigma + step
            if converged:
                break
    weights = _deformed_exp(scores - sigma, r)
    sigma = sigma + (weights.sum(dim=-1, keepdim=True) - 1.0) / _slope(weights, r).detach()
    return _deformed_exp(scores - sigma, r)


def _newton_step(scores: Rows, sigma: PerRow, r: Tensor) -> tuple[PerRow, bool]:
    """What Newton's method adds to sigma, and True if that is below the dtype's precision."""
    weights = _deformed_exp(scores - sigma, r)
    step = (weights.sum(dim=-1, keepdim=True) - 1.0) / _slope(weights, r)
    if torch.compiler.is_compiling():  # a compiled loop cannot end depending on a value
        return step, False
    return step, bool(step.abs().amax() <= 4 * torch.finfo(scores.dtype).eps)


def _slope(weights: Rows, r: Tensor) -> PerRow:
    """Minus the derivative of a row's sum by sigma: the sum of w^(2 - alpha) over its support."""
    return torch.where(weights > 0, weights.pow(1.0 - r), 0.0).sum(dim=-1, keepdim=True)


def _deformed_exp(z: Rows, r: Tensor) -> Rows:
    """(1 + r z)_+^(1/r), accurate also for r near zero; zero without gradient if 1 + r z <= 0."""
    inside = r * z > -1.0
    # the inner `where` keeps log1p away from its pole, whose gradient would be NaN
    exponent = torch.log1p(torch.where(inside, r * z, 0.0)) / r
    return torch.where(inside, exponent.exp(), 0.0)
