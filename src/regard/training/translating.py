"""Sentences translated some at a time: what evaluations score."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

TOGETHER = 32  # sentences that are translated at a time


class Written(NamedTuple):
    """The translation of the sentence of this number, and how many tokens it has."""

    number: int
    text: str
    tokens: int


def written(model: Any, sentences: Sequence[str], *, beam: int | None = None) -> Iterator[Written]:
    """The translations of sentences as they come, the short ones first.

    Without a `beam` the model searches as its own settings say.
    """
    tokenizer = model.tokenizer
    settings = {} if beam is None else {"num_beams": beam}
    device = next(model.parameters()).device
    order = sorted(range(len(sentences)), key=lambda number: len(sentences[number]))
    for start in range(0, len(order), TOGETHER):
        numbers = order[start : start + TOGETHER]
        batch = tokenizer([sentences[n] for n in numbers], return_tensors="pt", padding=True)
        ids, real = batch["input_ids"].to(device), batch["attention_mask"].to(device)
        longest = 2 * ids.shape[1] + 20
        found = model.generate(ids, real, max_new_tokens=longest, **settings)
        for number, each in zip(numbers, found, strict=True):
            text = tokenizer.decode(each, skip_special_tokens=True)
            yield Written(number, text, len(each) - 1)  # the start token was given


def translated(model: Any, sentences: Sequence[str], *, beam: int | None = None) -> list[str]:
    """The translations of sentences in their order."""
    found = sorted(written(model, sentences, beam=beam))
    return [each.text for each in found]
