"""Evaluating a finished model: translation quality on pairs, or perplexity on texts."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.errors import InputError
from regard.training.batches import Batches
from regard.training.corpora import Pair
from regard.training.metrics import translation_metrics
from regard.training.recipe import Data, Recipe
from regard.training.tasks import LanguageModelling, Translation
from regard.training.tasks.batch import mean_token_loss, one_epoch
from regard.training.tasks.translation import translate_in_batches
from regard.unicode import HAN_CHARACTER, KANA_CHARACTER

# The last lengths, in words, of the ranges of source lengths: 1 to 5, 6 to 10, ..., above 30.
EDGES = (5, 10, 15, 20, 30)

_TOKENS = 4096  # in a batch when the loss is computed


@dataclass(frozen=True)
class LengthRange:
    """The chrF of the pairs whose source has `first` to `last` words; None is no limit."""

    first: int
    last: int | None
    pairs: int
    chrf: float


@dataclass(frozen=True)
class Evaluation:
    """The quality of translations, and the speed of translating.

    `loss` is the mean loss of a token of the references in nats, and `speed` the number of target
    tokens per second. `bleu_tokenizer` is the tokenizer of sacrebleu, and `signature` is
    sacrebleu's record of all settings that BLEU depends on.
    """

    pairs: int
    bleu: float
    chrf: float
    loss: float
    speed: float
    bleu_tokenizer: str
    signature: str
    by_length: tuple[LengthRange, ...]


@dataclass(frozen=True)
class Likelihood:
    """The mean loss of a token in nats, and the perplexity, which is exp(loss)."""

    texts: int
    loss: float
    perplexity: float


def evaluate(
    model: Any,
    pairs: Sequence[Pair],
    *,
    beam: int | None = None,
    bleu_tokenizer: str | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> Evaluation:
    """BLEU, chrF, the mean loss of a token, and the speed of a translation model on pairs.

    `beam` None takes the number of beams from the model's generation settings. `bleu_tokenizer`
    None chooses by the language of the references, see `bleu_tokenizer_for`. `on_progress` is
    called with the number of pairs that are translated so far.
    """
    if not pairs:
        raise InputError("expected at least one pair to evaluate on, got none")
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    outputs, tokens, start = [""] * len(pairs), 0, time.perf_counter()
    for done, translation in enumerate(translate_in_batches(model, sources, beam=beam), 1):
        outputs[translation.sentence] = translation.text
        tokens += translation.tokens
        on_progress(done)
    speed = tokens / (time.perf_counter() - start)
    bleu_tokenizer = bleu_tokenizer or bleu_tokenizer_for(references)
    quality = translation_metrics(outputs, references, bleu_tokenizer)
    by_length = tuple(_chrf_by_length(sources, outputs, references))
    loss = _token_loss(model, pairs)
    return Evaluation(
        len(pairs),
        quality.bleu,
        quality.chrf,
        loss,
        speed,
        bleu_tokenizer,
        quality.signature,
        by_length,
    )


def evaluate_texts(model: Any, texts: Sequence[str], *, longest: int = 512) -> Likelihood:
    """The mean loss of a token of texts, which are cut into pieces of at most `longest` tokens."""
    if not texts:
        raise InputError("expected at least one text to evaluate on, got none")
    task = LanguageModelling(_recipe("language-modelling", longest), model.tokenizer)
    batches = Batches(texts, task.encode, max(_TOKENS, longest + 1), longest=longest + 1)
    with torch.no_grad():
        loss = mean_token_loss(model.eval(), one_epoch(batches, task.collate))
    return Likelihood(len(texts), loss, math.exp(min(loss, 80.0)))  # exp would overflow


def bleu_tokenizer_for(references: Sequence[str]) -> str:
    """The sacrebleu tokenizer for a language: zh for Chinese, char for Japanese, else 13a."""
    text = "".join(references)
    # Fewer than one Chinese character per sentence are names and quotations in another language.
    if len(HAN_CHARACTER.findall(text)) < len(references):
        return "13a"
    return "char" if len(KANA_CHARACTER.findall(text)) > len(references) else "zh"


def word_count(text: str) -> int:
    """The number of words of a text, where each Chinese character counts as a word."""
    return len(HAN_CHARACTER.findall(text)) + len(HAN_CHARACTER.sub(" ", text).split())


def _token_loss(model: Any, pairs: Sequence[Pair]) -> float:
    """The mean loss of a target token of the pairs."""
    # Some models start with another token than their tokenizer's bos, Marian with padding.
    start = model.generation.decoder_start_token_id
    task = Translation(_recipe("translation"), model.tokenizer, start=start)
    with torch.no_grad():
        batches = Batches(pairs, task.encode, _TOKENS)
        return mean_token_loss(model.eval(), one_epoch(batches, task.collate))


def _recipe(task: Any, longest: int = 512) -> Recipe:
    """A recipe for a task that is not trained: only its maximum length is used."""
    return Recipe(task, Path(), data=Data(longest=longest))


def _chrf_by_length(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> Iterator[LengthRange]:
    """chrF for each range of source lengths that has any pair."""
    lengths = list(map(word_count, sources))
    for first, last in zip((1, *(edge + 1 for edge in EDGES)), (*EDGES, None), strict=True):
        inside = [
            number
            for number, length in enumerate(lengths)
            if first <= length and (last is None or length <= last)
        ]
        if inside:
            some_outputs, some_references = (
                [side[number] for number in inside] for side in (outputs, references)
            )
            yield LengthRange(
                first, last, len(inside), translation_metrics(some_outputs, some_references).chrf
            )
