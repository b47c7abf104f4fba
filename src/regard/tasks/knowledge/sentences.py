"""SentenceRanker: how near the entries of a base are to a question, by a sentence encoder.

What nearness is stands in `regard.models.nearness`. Only entries that BM25 found are encoded, and
their states are kept for the next question.
"""

from collections.abc import Sequence
from typing import Any

import torch

from regard.loading import LoadedModel
from regard.models.nearness import TextStates, nearness, text_states

__all__ = ["LONGEST", "SentenceRanker"]

LONGEST = 64  # tokens of a text that are read: more would cost more than 0.3 s for a question
_KEPT = 4096  # texts whose states are kept: 100 kB each at most
_BATCH = 8


class SentenceRanker:
    """Nearness of entries to a question, by an encoder."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._model, self._tokenizer = loaded.model, loaded.tokenizer
        self._known: dict[str, TextStates] = {}

    def nearness(self, question: str, texts: Sequence[str]) -> list[float]:
        """How near each text is to the question."""
        asked, *encoded = self.encode([question, *texts])
        return [float(nearness(asked, each)) for each in encoded]

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> list[TextStates]:
        """The states of each text; those of similar length are run together."""
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

    def _run(self, rows: list[list[int]]) -> list[TextStates]:
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
            text_states(own[None, : len(row)], torch.ones(1, len(row), dtype=torch.bool))
            for own, row in zip(states, rows, strict=True)
        ]

    def _ids(self, text: str) -> list[int]:
        """The first ids of a text, the special token at the end kept."""
        tokenizer: Any = self._tokenizer
        ids: list[int] = tokenizer([text], truncation=True, max_length=LONGEST)["input_ids"][0]
        return ids
