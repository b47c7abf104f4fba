"""How near an entry is to a question, by the states that a sentence encoder gives their tokens.

Question and entry are encoded alone, by the same encoder. Two numbers say how near they are:

- the cosine of the means of their states (Reimers and Gurevych 2019);
- how well each token of the question finds its counterpart: it attends to the tokens of the entry,
  weights softmax(10 cos), and the mean cosine under these weights is averaged over the question, a
  soft form of late interaction (Khattab and Zaharia 2020, eq. 3).

`nearness` is the first + ALIGNED x the second; encoders are trained by it, and entries ranked.
"""

from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

__all__ = ["ALIGNED", "TextStates", "align", "nearness", "text_states"]

ALIGNED = 1.1  # fitted on 300 held-out questions of InsuranceQA
_SHARPNESS = 10.0


class TextStates(NamedTuple):
    """The states of the tokens of some texts and their means, all of length one."""

    states: Float[Tensor, "text token dim"]
    mean: Float[Tensor, "text dim"]
    real: Bool[Tensor, "text token"]


def text_states(
    states: Float[Tensor, "text token dim"], real: Bool[Tensor, "text token"]
) -> TextStates:
    """What is compared of the states that an encoder gave; `real` is False for padding."""
    mean = (states * real[..., None]).sum(1) / real.sum(1, keepdim=True)
    return TextStates(F.normalize(states, dim=-1), F.normalize(mean, dim=-1), real)


def align(
    questions: TextStates, entries: TextStates
) -> tuple[Float[Tensor, "question entry token other"], Float[Tensor, "question entry"]]:
    """The attention of each question's tokens to each entry's, and the mean cosine under it."""
    (count, length, dim), (others, size, _) = questions.states.shape, entries.states.shape
    product = questions.states.reshape(-1, dim) @ entries.states.reshape(-1, dim).T
    cosine = product.view(count, length, others, size).transpose(1, 2)
    hidden = ~entries.real[None, :, None, :]
    weights = (_SHARPNESS * cosine).masked_fill(hidden, float("-inf")).softmax(-1)
    found = (weights * cosine).sum(-1) * questions.real[:, None]
    return weights, found.sum(-1) / questions.real.sum(-1)[:, None]


def nearness(questions: TextStates, entries: TextStates) -> Float[Tensor, "question entry"]:
    """How near each entry is to each question.

    >>> import torch
    >>> from regard.models.nearness import nearness, text_states
    >>> texts = text_states(torch.eye(3)[:, None], torch.ones(3, 1, dtype=torch.bool))
    >>> nearness(texts, texts).round(decimals=1)[0]
    tensor([2.1000, 0.0000, 0.0000])
    """
    return questions.mean @ entries.mean.T + ALIGNED * align(questions, entries)[1]
