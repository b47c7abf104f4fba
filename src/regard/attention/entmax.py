"""Sparse alternatives to the softmax, on scores given relative to the best of their row (<= 0)."""

import torch
from jaxtyping import Float
from torch import Tensor

Rows = Float[Tensor, "*row key"]
Ones = Float[Tensor, "*row 1"]  # one number for each row


def sparsemax(scores: Rows) -> Rows:
    """max(s - tau, 0) with tau such that the row sums to one (Martins & Astudillo 2016, alg. 1).

    The support is found by sorting; tau is the mean of the support less its share of one, so that
    autograd gives the paper's Jacobian (proposition 2) by itself.
    """
    scores = scores.clamp_min(-2.0)  # what is more than 1 below the best is never in the support
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
    to exp(z) and sigma to the logsumexp as alpha tends to 1. sigma is the root of a convex falling
    function, so that Newton's steps from its left end never pass it. The last step is taken under
    autograd: by the implicit function theorem it gives the gradients to scores and alpha
    (Correia et al. 2019, proposition 1).
    """
    r = (alpha - 1.0).clamp_min(1e-6)
    scores = torch.maximum(scores, -1.0 / r.detach() - 1.0)  # below it the weight is zero anyway
    with torch.no_grad():
        sigma = torch.zeros_like(scores[..., :1])
        for _ in range(_STEPS):
            ahead, done = _newton(scores, sigma, r)
            sigma = sigma + ahead
            if done:
                break
    weights = _deformed_exp(scores - sigma, r)
    sigma = sigma + (weights.sum(dim=-1, keepdim=True) - 1.0) / _slope(weights, r).detach()
    return _deformed_exp(scores - sigma, r)


_STEPS = 40


def _newton(scores: Rows, sigma: Ones, r: Tensor) -> tuple[Ones, bool]:
    weights = _deformed_exp(scores - sigma, r)
    ahead = (weights.sum(dim=-1, keepdim=True) - 1.0) / _slope(weights, r)
    if torch.compiler.is_compiling():
        return ahead, False
    return ahead, bool(ahead.abs().amax() <= 4 * torch.finfo(scores.dtype).eps)


def _slope(weights: Rows, r: Tensor) -> Ones:
    """How fast the sum of a row falls as sigma grows: the sum of w^(2 - alpha) over its support."""
    return torch.where(weights > 0, weights.pow(1.0 - r), 0.0).sum(dim=-1, keepdim=True)


def _deformed_exp(z: Rows, r: Tensor) -> Rows:
    """(1 + r z)_+^(1/r), exact also where r is nearly zero; zero and without gradient outside."""
    inside = r * z > -1.0
    grown = torch.log1p(torch.where(inside, r * z, 0.0)) / r
    return torch.where(inside, grown.exp(), 0.0)
