"""Word alignment by attention: where a translator attends while it is made to write a reference."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.measures import GoldLinks, LinkAgreement, agreement, argmax_links, merge_pieces
from regard.studies.sentence_pairs import SentencePair, spaces_before
from regard.tracing import capture
from regard.types import AttentionMap, Tokens, Trace

PAIRS_AT_ONCE = 16  # pairs that run as one batch
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # a piece of a character that the vocabulary lacks
_NO_CROSS_ATTENTION = "this model has no attention from target to source; aligning words needs one"

Weights = Float[Tensor, "target source"]


@dataclass(frozen=True)
class AlignmentResult:
    """How well a model's attention agrees with links drawn by hand.

    `peaks` is the share of linked target words whose largest weight is on a word that they are
    linked to, `diagonal` the agreement of a baseline that ignores the words, `unknown` the shares
    of source and target words that the vocabulary cannot spell in pieces of its own.
    """

    sentences: int
    agreement: LinkAgreement
    peaks: float
    diagonal: LinkAgreement
    unknown: tuple[float, float]


@check_first_argument
def evaluate_alignment(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[SentencePair],
    *,
    site: str | None = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> AlignmentResult:
    """The agreement of a model's attention with the gold links of sentence pairs.

    `on_progress(done)` is called after each pair; `site` is chosen as in `word_attention`.
    """
    gold = _gold_links(sentences)
    weights = []
    for pair_weights in word_attention(model, tokenizer, sentences, site=site):
        weights.append(pair_weights)
        on_progress(len(weights))
    return AlignmentResult(
        len(weights),
        agreement(map(argmax_links, weights), gold),
        peak_accuracy(weights, gold),
        agreement((argmax_links(diagonal_baseline(pair)) for pair in sentences), gold),
        (
            unknown_word_share(getattr(tokenizer, "source", tokenizer), _words(sentences, 0)),
            unknown_word_share(getattr(tokenizer, "target", tokenizer), _words(sentences, 1)),
        ),
    )


@check_first_argument
def word_attention(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[SentencePair],
    *,
    site: str | None = None,
) -> Iterator[Weights]:
    """The weights between words of each pair while the model is made to write the reference.

    They are the mean over the heads of one cross-attention `site`; without a name, of the layer
    that the model's config names as its `alignment_layer`, else of the last.
    """
    layer = getattr(getattr(model, "config", None), "alignment_layer", None)
    for sentence, trace in _capture_pairs(model, tokenizer, sentences):
        yield word_weights(trace, sentence, layer if site is None else site)


@check_first_argument
def alignment_by_layer(
    model: nn.Module, tokenizer: Any, sentences: Sequence[SentencePair]
) -> list[tuple[float, LinkAgreement]]:
    """The peak accuracy and the agreement with gold links of each cross-attention layer."""
    gold, weights = _gold_links(sentences), list[list[Tensor]]()
    for sentence, trace in _capture_pairs(model, tokenizer, sentences):
        weights.append([word_weights(trace, sentence, site) for site in cross_sites(trace)])
    layers = list(zip(*weights, strict=True))
    if not layers:
        raise InputError(_NO_CROSS_ATTENTION)
    return [
        (peak_accuracy(layer, gold), agreement(map(argmax_links, layer), gold)) for layer in layers
    ]


@check_first_argument
def find_alignment_layer(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[SentencePair],
    *,
    by: Literal["peaks", "error rate"] = "peaks",
) -> int:
    """The cross-attention layer that agrees best with gold links; of equals the last.

    It is what a config names as `alignment_layer`. Choose it on pairs that the model is not
    evaluated on.
    """
    layers = alignment_by_layer(model, tokenizer, sentences)
    quality = [accuracy if by == "peaks" else -links.error_rate for accuracy, links in layers]
    return max(range(len(quality)), key=lambda layer: (quality[layer], layer))


def word_weights(trace: Trace, sentence: SentencePair, site: str | int | None = None) -> Weights:
    """The head mean of a cross map, with pieces merged to the words of the sentence pair.

    `site` is the map's name, or its number among the cross maps; the last if it is None.
    """
    cross = _cross_map(trace, site)
    produced = cross.rows if cross.produced is None else cross.produced
    rows = words_of_pieces(trace.tokens(produced), sentence.target, sentence.spaced[1])
    columns = words_of_pieces(trace.tokens(cross.columns), sentence.source, sentence.spaced[0])
    merged = merge_pieces(cross.weights().mean(dim=0), rows, columns)
    # words at the end that no piece covers get rows and columns of zeros
    padded = merged.new_zeros(len(sentence.target), len(sentence.source))
    padded[: merged.shape[0], : merged.shape[1]] = merged
    return padded


def words_of_pieces(tokens: Tokens, words: Sequence[str], spaced: bool) -> list[int | None]:
    """The number of the word that each piece lies in, by its characters; None for no word."""
    if tokens.offsets is None:
        raise InputError(
            "aligning words needs a tokenizer that tells which characters a piece covers; "
            "use a fast one"
        )
    words_at: list[int | None] = []  # the word of each character of the sentence
    for number, (gap, word) in enumerate(zip(spaces_before(words, spaced), words, strict=True)):
        words_at += [None] * len(gap) + [number] * len(word)
    special = tokens.special or (False,) * len(tokens)
    return [
        None if marked else next((word for word in words_at[start:stop] if word is not None), None)
        for (start, stop), marked in zip(tokens.offsets, special, strict=True)
    ]


def cross_sites(trace: Trace) -> list[str]:
    """The sites that attend from target to source, in the order in which they ran."""
    return [attention_map.site for attention_map in trace.of("cross")]


@check_first_argument
def diagonal_baseline(sentence: SentencePair) -> Weights:
    """Weights that ignore the words: a target word attends to its relative source position."""
    rows, columns = len(sentence.target), len(sentence.source)
    position = (torch.arange(rows) * columns) // max(1, rows)
    return torch.nn.functional.one_hot(position, columns).float()


@check_first_argument
def peak_accuracy(weights: Iterable[Tensor], gold: Iterable[GoldLinks]) -> float:
    """The share of linked target words whose largest weight is on a word they are linked to."""
    correct = total = 0
    for pair_weights, links in zip(weights, gold, strict=True):
        linked: dict[int, set[int]] = {}
        for source, target in links.possible:
            linked.setdefault(target, set()).add(source)
        total += len(linked)
        correct += sum(
            int(pair_weights[target].argmax()) in words for target, words in linked.items()
        )
    if not total:
        raise InputError("expected at least one linked word, got none")
    return correct / total


def unknown_word_share(tokenizer: Any, words: Sequence[str]) -> float:
    """The share of words with a piece that is unknown, or a byte of a missing character."""
    unknown = getattr(tokenizer, "unk_token", None)
    count = sum(
        any(piece == unknown or _BYTE.fullmatch(piece) for piece in tokenizer.tokenize(word))
        for word in words
    )
    return count / max(1, len(words))


def _capture_pairs(
    model: nn.Module, tokenizer: Any, sentences: Sequence[SentencePair]
) -> Iterator[tuple[SentencePair, Trace]]:
    """Each pair with the trace of the model while it is made to write the target."""
    for start in range(0, len(sentences), PAIRS_AT_ONCE):
        batch = sentences[start : start + PAIRS_AT_ONCE]
        sources, targets = ([pair.text(side) for pair in batch] for side in (0, 1))
        traces = capture(model, tokenizer, sources, target=targets, keep="windows", atlas=0)
        yield from zip(batch, traces, strict=True)


def _gold_links(sentences: Sequence[SentencePair]) -> list[GoldLinks]:
    """The gold links of all pairs; an `InputError` if a pair has none."""
    gold = [pair.gold for pair in sentences if pair.gold is not None]
    if not gold or len(gold) < len(sentences):
        raise InputError(
            f"expected sentences with gold links, got {len(gold)} of {len(sentences)} with them"
        )
    return gold


def _words(sentences: Sequence[SentencePair], side: int) -> list[str]:
    """All source words for side 0, all target words for side 1."""
    return [word for pair in sentences for word in (pair.source, pair.target)[side]]


def _cross_map(trace: Trace, site: str | int | None) -> AttentionMap:
    """The cross map with this name or number; the last one if `site` is None."""
    if isinstance(site, str):
        return trace[site]
    maps = trace.of("cross")
    if not maps:
        raise InputError(_NO_CROSS_ATTENTION)
    if site is not None and not 0 <= site < len(maps):
        raise InputError(
            f"expected an alignment_layer below {len(maps)}, the cross-attention layers of this "
            f"model, got {site}"
        )
    return maps[-1 if site is None else site]
