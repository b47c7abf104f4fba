"""What a tokenizer gives for one or several texts: a mapping with attributes, as models take it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tokenizers
import torch

from regard.errors import InputError


class Batch(dict[str, Any]):
    """Ids, masks and offsets by name; `batch.input_ids` is `batch["input_ids"]`.

    `encodings` are the texts as the tokenizers library saw them.
    """

    def __init__(self, parts: dict[str, Any], encodings: Sequence[tokenizers.Encoding]) -> None:
        super().__init__(parts)
        self.encodings = list(encodings)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this batch has {', '.join(self)}, and no {name!r}") from None

    def to(self, device: str | torch.device) -> "Batch":
        """The same batch, its tensors on the device."""
        for name, part in self.items():
            if isinstance(part, torch.Tensor):
                self[name] = part.to(device)
        return self

    def tokens(self, index: int = 0) -> list[str]:
        """The tokens of one text."""
        return list(self.encodings[index].tokens)

    def word_ids(self, index: int = 0) -> list[int | None]:
        """The word that each token of one text is a part of; None for a special token."""
        return list(self.encodings[index].word_ids)

    def sequence_ids(self, index: int = 0) -> list[int | None]:
        """0 for tokens of the text, 1 for those of its pair, None for special tokens."""
        return list(self.encodings[index].sequence_ids)


def stacked(rows: list[Any], kind: str | None) -> Any:
    """Rows of one length as one tensor ("pt") or array ("np"); as they are without a kind."""
    if kind is None:
        return rows
    if len({len(row) for row in rows}) > 1:
        few, many = min(map(len, rows)), max(map(len, rows))
        raise InputError(f"the texts have {few} to {many} tokens; one tensor needs padding=True")
    if kind == "np":
        return np.array(rows, dtype=np.int64)
    return torch.tensor(rows, dtype=torch.long)
