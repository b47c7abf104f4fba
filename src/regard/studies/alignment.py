"""Where a translator looks for each word of a reference that it is made to write."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError
from regard.measures import Gold, merged
from regard.tracing import capture
from regard.types import AttentionMap, Tokens, Trace

TOGETHER = 16  # pairs that are run at a time


@dataclass(frozen=True)
class Sentence:
    """A pair of sentences as the words that its gold links count, and the links if there are any.

    `spaced` says of source and target whether their words are parted by spaces.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    gold: Gold | None = None
    spaced: tuple[bool, bool] = (True, False)

    def text(self, side: int) -> str:
        """The sentence of a side as it is written."""
        words = (self.source, self.target)[side]
        return (" " if self.spaced[side] else "").join(words)


def aligned(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    site: str | None = None,
) -> Iterator[Float[Tensor, "target source"]]:
    """The weights between words of each pair while the model is made to write the reference.

    They are the mean over the heads of one cross-attention `site`, the last if none is named.
    """
    for start in range(0, len(sentences), TOGETHER):
        some = sentences[start : start + TOGETHER]
        traces = capture(
            model,
            tokenizer,
            [each.text(0) for each in some],
            target=[each.text(1) for each in some],
            keep="windows",
            atlas=0,
        )
        for sentence, trace in zip(some, traces, strict=True):
            yield word_weights(trace, sentence, site)


def word_weights(
    trace: Trace, sentence: Sentence, site: str | None = None
) -> Float[Tensor, "target source"]:
    """The head mean of a cross map, merged to the words of the sentence."""
    found = _cross(trace, site)
    produced = found.rows if found.produced is None else found.produced
    rows = word_of_pieces(trace.tokens(produced), sentence.target, sentence.spaced[1])
    columns = word_of_pieces(trace.tokens(found.columns), sentence.source, sentence.spaced[0])
    merged_words = merged(found.weights().mean(dim=0), rows, columns)
    # words at the end that no piece covers have rows and columns of zeros
    whole = merged_words.new_zeros(len(sentence.target), len(sentence.source))
    whole[: merged_words.shape[0], : merged_words.shape[1]] = merged_words
    return whole


def word_of_pieces(tokens: Tokens, words: Sequence[str], spaced: bool) -> list[int | None]:
    """The word that each piece lies in, by the characters that it covers; None for none."""
    if tokens.offsets is None:
        raise InputError(
            "aligning words needs a tokenizer that tells which characters a piece covers; "
            "use a fast one"
        )
    owner: list[int | None] = []
    for number, word in enumerate(words):
        owner += ([None] if spaced and number else []) + [number] * len(word)
    special = tokens.special or (False,) * len(tokens)
    return [
        None if marked else next((each for each in owner[start:stop] if each is not None), None)
        for (start, stop), marked in zip(tokens.offsets, special, strict=True)
    ]


def cross_sites(trace: Trace) -> list[str]:
    """The sites from target to source, in the order in which they ran."""
    return [each.site for each in trace.of("cross")]


def diagonal(sentence: Sentence) -> Float[Tensor, "target source"]:
    """The baseline that looks at nothing: each target word at the source word of its place."""
    rows, columns = len(sentence.target), len(sentence.source)
    place = (torch.arange(rows) * columns) // max(1, rows)
    return torch.nn.functional.one_hot(place, columns).float()


def peaks(weights: Iterable[Tensor], gold: Iterable[Gold]) -> float:
    """The share of linked target words whose largest weight is on a word of theirs."""
    right = total = 0
    for found, links in zip(weights, gold, strict=True):
        wanted: dict[int, set[int]] = {}
        for source, target in links.possible:
            wanted.setdefault(target, set()).add(source)
        total += len(wanted)
        right += sum(int(found[target].argmax()) in sources for target, sources in wanted.items())
    if not total:
        raise InputError("expected at least one linked word, got none")
    return right / total


def _cross(trace: Trace, site: str | None) -> AttentionMap:
    if site is not None:
        return trace[site]
    found = trace.of("cross")
    if not found:
        raise InputError(
            "this model has no attention from target to source; aligning words needs one"
        )
    return found[-1]
