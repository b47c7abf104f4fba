"""Training losses: cross-entropy with label smoothing, also piece by piece, and REINFORCE."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
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
    """The moving mean of the reward of each step, which REINFORCE subtracts from its rewards.

    b_t <- 0.9 b_t + 0.1 r_t (Xu et al. 2015, section 4.1, have one b for the whole sentence). It
    reduces the variance; it adds no bias, because it was known before the choices were drawn.
    """

    values: list[float] = field(default_factory=list)

    def expected(self, steps: int, unknown: float) -> list[float]:
        """The mean reward of each of the first steps before this batch.

        A step that no batch has had takes the last mean that is known, or `unknown`.
        """
        last = self.values[-1] if self.values else unknown
        return (self.values + [last] * steps)[:steps]

    def update(self, rewards: Sequence[float], unknown: float) -> None:
        """Include the mean rewards of a batch, one for each step from the first on."""
        before = self.expected(len(rewards), unknown)
        means = [0.9 * mean + 0.1 * reward for mean, reward in zip(before, rewards, strict=True)]
        self.values = means + self.values[len(rewards) :]


def reinforce_loss(
    logits: Float[Tensor, "batch length vocab"],
    log_probability: Float[Tensor, "batch length"],
    labels: Int[Tensor, "batch length"],
    baseline: Baseline,
    smoothing: float = 0.0,
    *,
    later_steps: bool = True,
) -> Float[Tensor, ""]:
    """The `cross_entropy`, whose gradient also trains hard attention by REINFORCE (Williams 1992).

    The gradient is an unbiased estimate of that of the expected cross-entropy. A token's reward is
    minus its loss, and a choice is credited with the rewards of its own step and of all later ones,
    minus their baselines: the choice changes the states from which later tokens are predicted. With
    later_steps=False, for a decoder whose states do not depend on the choices, a choice is credited
    with its own step alone, which has less variance. The value of the loss is the cross-entropy
    alone, so that it can be compared with other models.
    """
    counted = labels != IGNORED
    with torch.no_grad():
        reward = -F.cross_entropy(
            logits.flatten(0, -2).to(torch.promote_types(logits.dtype, torch.float32)),
            labels.flatten(),
            ignore_index=IGNORED,
            label_smoothing=smoothing,
            reduction="none",
        ).view_as(labels)
        unknown = -math.log(logits.shape[-1])  # of a model that knows nothing
        expected = reward.new_tensor(baseline.expected(labels.shape[1], unknown))
        advantage = (reward - expected).masked_fill(~counted, 0)
        _update_baseline(baseline, reward, counted, unknown)
        if later_steps:
            advantage = advantage.flip(1).cumsum(1).flip(1)
    policy_loss = -(advantage * log_probability).sum()
    # The difference is 0 in value and has the gradient of the policy loss.
    return cross_entropy(logits, labels, smoothing) + policy_loss - policy_loss.detach()


def _update_baseline(baseline: Baseline, reward: Tensor, counted: Tensor, unknown: float) -> None:
    """Include the mean reward of each step, as far as some row of the batch has a token there."""
    rows = counted.sum(0)
    sums = reward.masked_fill(~counted, 0).sum(0)
    means = baseline.expected(len(rows), unknown)
    for step in rows.nonzero()[:, 0].tolist():
        means[step] = float(sums[step] / rows[step])
    last = int(rows.nonzero().max()) + 1 if rows.any() else 0
    baseline.update(means[:last], unknown)


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
