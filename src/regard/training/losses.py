"""Training losses: cross-entropy with label smoothing, also piece by piece, and REINFORCE."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

IGNORED = -100  # the label of tokens that are not counted, as in torch
PIECE = 1 << 20  # number of logits that are in memory at a time


def cross_entropy(
    logits: Float[Tensor, "*batch vocab"], labels: Int[Tensor, "*batch"], smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """The sum over tokens of -log p(label), with smoothed labels (Szegedy et al. 2016, section 7).

    Labels of -100 are not counted.
    """
    return F.cross_entropy(
        logits.flatten(0, -2),
        labels.flatten(),
        ignore_index=IGNORED,
        label_smoothing=smoothing,
        reduction="sum",
    )


def projected_cross_entropy(
    hidden: Float[Tensor, "*batch dim"],
    weight: Float[Tensor, "vocab dim"],
    bias: Float[Tensor, " vocab"] | None,
    labels: Int[Tensor, "*batch"],
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The `cross_entropy` of the logits `hidden @ weight.T + bias`, computed piece by piece.

    The gradients are computed in the same pass, so that no (token x vocab) tensor is kept for the
    backward pass or computed twice. Tokens with the label -100 are not computed at all.
    """
    counted = labels.flatten() != IGNORED
    kept = hidden.flatten(0, -2)[counted]
    loss: Tensor = _PiecewiseCrossEntropy.apply(
        kept, weight, bias, labels.flatten()[counted], smoothing
    )  # type: ignore[no-untyped-call]
    return loss


@dataclass
class Baseline:
    """The moving mean of the reward, which REINFORCE subtracts to reduce its variance.

    b <- 0.9 b + 0.1 r (Xu et al. 2015, section 4.1). The value is None before the first reward.
    """

    value: float | None = None

    def update(self, reward: float) -> float:
        """Include a reward in the mean, and return the mean before it."""
        before = reward if self.value is None else self.value
        self.value = 0.9 * before + 0.1 * reward
        return before


def reinforce_loss(
    logits: Float[Tensor, "batch length vocab"],
    log_probability: Float[Tensor, "batch length"],
    labels: Int[Tensor, "batch length"],
    baseline: Baseline,
    smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """The `cross_entropy`, whose gradient also trains hard attention by REINFORCE (Williams 1992).

    The reward of a choice is log p of the token that it was made for, minus the baseline. Xu et al.
    2015 (eq. 12) have one reward for the whole sentence; one for each token has less variance. The
    value of the loss is the cross-entropy alone, so that it can be compared with other models.
    """
    counted = labels != IGNORED
    with torch.no_grad():
        log_p = logits.float().log_softmax(dim=-1)
        reward = log_p.gather(-1, labels.clamp_min(0)[..., None])[..., 0].masked_fill(~counted, 0)
        mean = float(reward.sum() / counted.sum().clamp_min(1))
        advantage = (reward - baseline.update(mean)).masked_fill(~counted, 0)
    policy_loss = -(advantage * log_probability).sum()
    # The difference is 0 in value and has the gradient of the policy loss.
    return cross_entropy(logits, labels, smoothing) + policy_loss - policy_loss.detach()


class _PiecewiseCrossEntropy(torch.autograd.Function):
    """Computes the loss and its gradients together in the forward pass, some rows at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
    ) -> Tensor:
        vocab, exact = len(weight), torch.promote_types(hidden.dtype, torch.float32)
        total = hidden.new_zeros((), dtype=exact)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        rows = max(1, PIECE // vocab)
        for start in range(0, len(hidden), rows):
            piece, target = hidden[start : start + rows], labels[start : start + rows, None]
            log_p = F.linear(piece, weight, bias).log_softmax(-1, dtype=exact)
            total -= (1 - smoothing) * log_p.gather(1, target).sum()
            if smoothing:
                total -= smoothing / vocab * log_p.sum()
            slope = log_p.exp_()  # softmax - smoothed label
            if smoothing:
                slope -= smoothing / vocab
            slope.scatter_add_(1, target, slope.new_full(target.shape, smoothing - 1))
            slope = slope.to(weight.dtype)
            torch.mm(slope, weight, out=grad_hidden[start : start + rows])
            grad_weight.addmm_(slope.T, piece)
            if grad_bias is not None:
                grad_bias += slope.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors
        scaled = [None if tensor is None else tensor * gradient for tensor in saved]
        return *scaled, None, None
