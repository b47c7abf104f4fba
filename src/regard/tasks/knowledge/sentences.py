"""SentenceRanker: how near the entries of a base are to a question, by a sentence encoder.

The vector of a text is the mean of an encoder's states (Reimers and Gurevych 2019), the nearness of
two texts the cosine of their vectors. Only entries that BM25 found are encoded, each once.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.loading import LoadedModel

__all__ = ["LONGEST", "SentenceRanker"]

LONGEST = 64  # tokens of an entry that are read: more would cost more than 0.3 s for a question


class SentenceRanker:
    """Vectors of texts by an encoder; those of entries are kept by their numbers."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._model, self._tokenizer = loaded.model, loaded.tokenizer
        self._vectors: dict[str, Float[Tensor, " dim"]] = {}

    def nearness(self, question: str, texts: Sequence[str]) -> Float[Tensor, " text"]:
        """The cosine of the question and each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        rows = self._encode([question, *new])
        self._vectors |= dict(zip(new, rows[1:], strict=True))
        return torch.stack([self._vectors[text] for text in texts]) @ rows[0]

    @torch.no_grad()
    def _encode(self, texts: list[str]) -> Float[Tensor, "text dim"]:
        """The vectors of some texts, of length one; those of similar length are run together."""
        ids = [self._ids(text) for text in texts]
        order = sorted(range(len(ids)), key=lambda number: len(ids[number]))
        vectors: dict[int, Tensor] = {}
        for start in range(0, len(order), 8):
            part = order[start : start + 8]
            rows = [torch.tensor(ids[number]) for number in part]
            padded = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            lengths = torch.tensor([len(row) for row in rows])
            mask = torch.arange(padded.shape[1]) < lengths[:, None]
            device = next(self._model.parameters()).device
            states: Any = self._model(padded.to(device), attention_mask=mask.long().to(device))
            # a model of transformers returns an object
            states = getattr(states, "last_hidden_state", states).float().cpu()
            means = (states * mask[..., None]).sum(1) / lengths[:, None]
            vectors |= dict(zip(part, F.normalize(means, dim=-1), strict=True))
        return torch.stack([vectors[number] for number in range(len(texts))])

    def _ids(self, text: str) -> list[int]:
        """The first ids of a text, the special token at the end kept."""
        tokenizer: Any = self._tokenizer
        ids: list[int] = tokenizer([text], truncation=True, max_length=LONGEST)["input_ids"][0]
        return ids
