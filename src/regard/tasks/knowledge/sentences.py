"""SentenceRanker: how near the entries of a base are to a question, by a sentence encoder.

Question and entry are encoded alone, by the same encoder. Two numbers say how near they are:

- the cosine of the means of their states (Reimers and Gurevych 2019);
- how well each token of the question finds its counterpart: it attends to the tokens of the entry,
  weights softmax(10 cos), and the mean cosine under these weights is averaged over the question, a
  soft form of late interaction (Khattab and Zaharia 2020, eq. 3).

Only entries that BM25 found are encoded, and their states are kept for the next question.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.loading import LoadedModel

__all__ = ["LONGEST", "EncodedText", "SentenceRanker", "align"]

LONGEST = 64  # tokens of a text that are read: more would cost more than 0.3 s for a question
_SHARPNESS = 10.0
_KEPT = 4096  # texts whose states are kept: 100 kB each at most
_BATCH = 8


class EncodedText(NamedTuple):
    """The states of a text's tokens and their mean, all of length one."""

    states: Float[Tensor, "token dim"]
    mean: Float[Tensor, " dim"]


class SentenceRanker:
    """Nearness of entries to a question, by an encoder."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._model, self._tokenizer = loaded.model, loaded.tokenizer
        self._known: dict[str, EncodedText] = {}

    def nearness(self, question: str, texts: Sequence[str]) -> list[tuple[float, float]]:
        """For each text the cosine of the means, and the aligned cosine."""
        asked, *encoded = self.encode([question, *texts])
        return [(float(each.mean @ asked.mean), float(align(asked, each)[1])) for each in encoded]

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """The states of some texts; those of similar length are run together."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if len(self._known) + len(new) > _KEPT:
            self._known.clear()
            new = list(dict.fromkeys(texts))
        ids = {text: self._ids(text) for text in new}
        order = sorted(new, key=lambda text: len(ids[text]))
        for start in range(0, len(order), _BATCH):
            part = order[start : start + _BATCH]
            self._known |= dict(zip(part, self._run([ids[text] for text in part]), strict=True))
        return [self._known[text] for text in texts]

    def _run(self, rows: list[list[int]]) -> list[EncodedText]:
        """The states of one batch."""
        padded = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(row) for row in rows], batch_first=True
        )
        mask = torch.arange(padded.shape[1]) < torch.tensor([[len(row)] for row in rows])
        device = next(self._model.parameters()).device
        states: Any = self._model(padded.to(device), attention_mask=mask.long().to(device))
        # a model of transformers returns an object
        states = getattr(states, "last_hidden_state", states).float().cpu()
        return [
            EncodedText(
                F.normalize(own[: len(row)], dim=-1), F.normalize(own[: len(row)].mean(0), dim=0)
            )
            for own, row in zip(states, rows, strict=True)
        ]

    def _ids(self, text: str) -> list[int]:
        """The first ids of a text, the special token at the end kept."""
        tokenizer: Any = self._tokenizer
        ids: list[int] = tokenizer([text], truncation=True, max_length=LONGEST)["input_ids"][0]
        return ids


def align(
    question: EncodedText, entry: EncodedText
) -> tuple[Float[Tensor, "question entry"], Float[Tensor, ""]]:
    """The attention of the question's tokens to the entry's, and the mean cosine under it."""
    cosine = question.states @ entry.states.T
    weights = (_SHARPNESS * cosine).softmax(-1)
    return weights, (weights * cosine).sum(-1).mean()
