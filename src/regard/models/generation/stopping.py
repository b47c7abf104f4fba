"""Stopping criteria: a sequence ends at an end token, its maximum length or a stop string."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.models.generation.hypotheses import Hypotheses

_TOKENS_WITHOUT_TEXT = 8  # special tokens, for instance, that may stand within a stop string


@runtime_checkable
class TextDecoder(Protocol):
    """The part of a tokenizer that turns ids into text."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool = ...) -> str:
        """The text of these ids."""
        ...


@dataclass(frozen=True)
class StopStrings:
    """Ends a sequence as soon as its new text contains one of the strings."""

    strings: tuple[str, ...]
    tokenizer: TextDecoder

    @property
    def max_tokens(self) -> int:
        """The largest number of tokens that the longest string can be spread over.

        In the worst case each of its bytes is one token.
        """
        return max(len(string.encode()) for string in self.strings) + _TOKENS_WITHOUT_TEXT

    def __call__(self, sequences: Sequence[list[int]]) -> list[bool]:
        """For each sequence of new tokens, True if it contains a stop string.

        This is called after every token, so it is enough to look at the last tokens.
        """
        texts = (
            self.tokenizer.decode(ids[-self.max_tokens :], skip_special_tokens=True)
            for ids in sequences
        )
        return [any(string in text for string in self.strings) for text in texts]


@dataclass(frozen=True)
class StoppingCriteria:
    """Decides whether a hypothesis ends with its next token.

    `max_new_tokens` is the largest number of new tokens of each input, and `min_max_new_tokens` the
    smallest of these numbers: before it no sequence can be too long, and the check is skipped.
    """

    eos: Int[Tensor, " eos"]
    max_new_tokens: Int[Tensor, " sentence"]
    min_max_new_tokens: int
    strings: StopStrings | None = None

    def __call__(
        self,
        hypotheses: Hypotheses,
        rows: Int[Tensor, " candidate"],
        tokens: Int[Tensor, " candidate"],
    ) -> Bool[Tensor, " candidate"]:
        """True for each candidate, a row and its next token, that ends the sequence."""
        ends = (tokens[:, None] == self.eos).any(dim=1)
        length = hypotheses.new_tokens + 1
        if length >= self.min_max_new_tokens:
            ends = ends | (length >= self.max_new_tokens[hypotheses.input_index[rows]])
        if self.strings is not None:
            prompt = hypotheses.ids.shape[1] - hypotheses.new_tokens
            sequences = torch.cat([hypotheses.ids[:, prompt:][rows], tokens[:, None]], dim=1)
            ends = ends | torch.tensor(self.strings(sequences.tolist()), device=ends.device)
        return ends
