"""Where a translator looks for each word of a reference that it is made to write."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError
from regard.measures import GoldLinks, LinkAgreement, agreement, argmax_links, merge_pieces
from regard.studies.sentence_pairs import Sentence, spaces
from regard.tracing import capture
from regard.types import AttentionMap, Tokens, Trace

TOGETHER = 16  # pairs that are run at a time
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # a piece of a character that the vocabulary has not

Weights = Float[Tensor, "target source"]


@dataclass(frozen=True)
class Alignment:
    """How well a model's attention agrees with links drawn by hand, and beside what.

    `peaks` is the share of linked target words whose largest weight is on a word of theirs,
    `diagonal` the agreement of the baseline that looks at nothing, `unknown` the share of source
    and target words that the vocabulary cannot spell in pieces of its own.
    """

    sentences: int
    agreement: LinkAgreement
    peaks: float
    diagonal: LinkAgreement
    unknown: tuple[float, float]


def align(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    site: str | None = None,
    told: Callable[[int], None] = lambda done: None,
) -> Alignment:
    """The agreement of a model with the gold links of sentences; `told` hears how many are done."""
    gold = _links(sentences)
    found = []
    for weights in aligned(model, tokenizer, sentences, site=site):
        found.append(weights)
        told(len(found))
    return Alignment(
        len(found),
        agreement(map(argmax_links, found), gold),
        peaks(found, gold),
        agreement((argmax_links(diagonal(each)) for each in sentences), gold),
        (
            unknown_share(getattr(tokenizer, "source", tokenizer), _words(sentences, 0)),
            unknown_share(getattr(tokenizer, "target", tokenizer), _words(sentences, 1)),
        ),
    )


def aligned(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    site: str | None = None,
) -> Iterator[Weights]:
    """The weights between words of each pair while the model is made to write the reference.

    They are the mean over the heads of one cross-attention `site`; if none is named, of the layer
    that the model's config names as its `alignment_layer`, else of the last.
    """
    layer = getattr(getattr(model, "config", None), "alignment_layer", None)
    for sentence, trace in _traced(model, tokenizer, sentences):
        yield word_weights(trace, sentence, layer if site is None else site)


def layer_alignments(
    model: nn.Module, tokenizer: Any, sentences: Sequence[Sentence]
) -> list[tuple[float, LinkAgreement]]:
    """For each cross-attention layer the share of right peaks, and the agreement with the links."""
    gold, found = _links(sentences), list[list[Tensor]]()
    for sentence, trace in _traced(model, tokenizer, sentences):
        found.append([word_weights(trace, sentence, site) for site in cross_sites(trace)])
    layers = list(zip(*found, strict=True))
    if not layers:
        raise InputError(_BLIND)
    return [(peaks(each, gold), agreement(map(argmax_links, each), gold)) for each in layers]


def alignment_layer(
    model: nn.Module,
    tokenizer: Any,
    sentences: Sequence[Sentence],
    *,
    by: Literal["peaks", "error rate"] = "peaks",
) -> int:
    """The cross-attention layer that agrees best with gold links: what a config may name.

    Choose it on pairs that the model is not judged by. Of equals it is the last.
    """
    found = layer_alignments(model, tokenizer, sentences)
    good = [right if by == "peaks" else -links.error_rate for right, links in found]
    return max(range(len(good)), key=lambda layer: (good[layer], layer))


def word_weights(trace: Trace, sentence: Sentence, site: str | int | None = None) -> Weights:
    """The head mean of a cross map, merged to the words of the sentence.

    `site` is its name, or its number among the cross maps; the last if it is None.
    """
    found = _cross(trace, site)
    produced = found.rows if found.produced is None else found.produced
    rows = word_of_pieces(trace.tokens(produced), sentence.target, sentence.spaced[1])
    columns = word_of_pieces(trace.tokens(found.columns), sentence.source, sentence.spaced[0])
    merged_words = merge_pieces(found.weights().mean(dim=0), rows, columns)
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
    for number, (gap, word) in enumerate(zip(spaces(words, spaced), words, strict=True)):
        owner += [None] * len(gap) + [number] * len(word)
    special = tokens.special or (False,) * len(tokens)
    return [
        None if marked else next((each for each in owner[start:stop] if each is not None), None)
        for (start, stop), marked in zip(tokens.offsets, special, strict=True)
    ]


def cross_sites(trace: Trace) -> list[str]:
    """The sites from target to source, in the order in which they ran."""
    return [each.site for each in trace.of("cross")]


def diagonal(sentence: Sentence) -> Weights:
    """The baseline that looks at nothing: each target word at the source word of its place."""
    rows, columns = len(sentence.target), len(sentence.source)
    place = (torch.arange(rows) * columns) // max(1, rows)
    return torch.nn.functional.one_hot(place, columns).float()


def peaks(weights: Iterable[Tensor], gold: Iterable[GoldLinks]) -> float:
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


def unknown_share(tokenizer: Any, words: Sequence[str]) -> float:
    """The share of words of which a piece is unknown, or is a byte for want of the character."""
    unknown = getattr(tokenizer, "unk_token", None)
    found = sum(
        any(piece == unknown or _BYTE.fullmatch(piece) for piece in tokenizer.tokenize(word))
        for word in words
    )
    return found / max(1, len(words))


def _traced(
    model: nn.Module, tokenizer: Any, sentences: Sequence[Sentence]
) -> Iterator[tuple[Sentence, Trace]]:
    for start in range(0, len(sentences), TOGETHER):
        some = sentences[start : start + TOGETHER]
        sources, targets = ([each.text(side) for each in some] for side in (0, 1))
        traces = capture(model, tokenizer, sources, target=targets, keep="windows", atlas=0)
        yield from zip(some, traces, strict=True)


def _links(sentences: Sequence[Sentence]) -> list[GoldLinks]:
    gold = [each.gold for each in sentences if each.gold is not None]
    if not gold or len(gold) < len(sentences):
        raise InputError(
            f"expected sentences with gold links, got {len(gold)} of {len(sentences)} with them"
        )
    return gold


def _words(sentences: Sequence[Sentence], side: int) -> list[str]:
    return [word for each in sentences for word in (each.source, each.target)[side]]


_BLIND = "this model has no attention from target to source; aligning words needs one"


def _cross(trace: Trace, site: str | int | None) -> AttentionMap:
    if isinstance(site, str):
        return trace[site]
    found = trace.of("cross")
    if not found:
        raise InputError(_BLIND)
    if site is not None and not 0 <= site < len(found):
        raise InputError(
            f"expected an alignment_layer below {len(found)}, the cross-attention layers of this "
            f"model, got {site}"
        )
    return found[-1 if site is None else site]
