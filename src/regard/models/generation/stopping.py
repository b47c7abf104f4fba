"""When a sequence ends: at an end token, at its longest length, after a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.models.generation.hypotheses import Drafts

_SLACK = 8  # tokens without text that may stand within a stop string


@runtime_checkable
class Decoder(Protocol):
    """A tokenizer, as far as it turns ids into text."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = ...) -> str:
        """The text of these ids."""
        ...


@dataclass(frozen=True)
class StopStrings:
    """Ends a sequence whose new text holds one of the strings."""

    strings: tuple[str, ...]
    tokenizer: Decoder

    @property
    def reach(self) -> int:
        """How many tokens can hold the longest of the strings, one byte each."""
        return max(len(string.encode()) for string in self.strings) + _SLACK

    def __call__(self, written: Sequence[list[int]]) -> list[bool]:
        """Whether each of these ends; it is asked after every token, so the last ones suffice."""
        texts = (
            self.tokenizer.decode(ids[-self.reach :], skip_special_tokens=True) for ids in written
        )
        return [any(string in text for string in self.strings) for text in texts]


@dataclass(frozen=True)
class Ends:
    """Whether a draft ends with a token: `longest` is how many each sentence may write."""

    eos: Int[Tensor, " eos"]
    longest: Int[Tensor, " sentence"]
    soonest: int
    strings: StopStrings | None = None

    def __call__(
        self, drafts: Drafts, rows: Int[Tensor, " candidate"], tokens: Int[Tensor, " candidate"]
    ) -> Bool[Tensor, " candidate"]:
        """For each candidate, a row and the token that it would write next."""
        over = (tokens[:, None] == self.eos).any(dim=1)
        if drafts.new + 1 >= self.soonest:
            over = over | (drafts.new + 1 >= self.longest[drafts.sentences[rows]])
        if self.strings is not None:
            fresh = drafts.ids[:, drafts.ids.shape[1] - drafts.new :][rows]
            written = torch.cat([fresh, tokens[:, None]], dim=1).tolist()
            over = over | torch.tensor(self.strings(written), device=over.device)
        return over
