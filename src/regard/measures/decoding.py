"""Cross-attention while decoding: which source tokens were covered, left out or revisited.

The rows of a cross map are in the order in which the target was written. `head` picks one head;
without it the mean of all heads is taken. Special tokens of the source take part like others:
`merge_words` leaves them out and joins pieces to words, and its trace goes into the same functions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.measures.alignment import merge_pieces
from regard.measures.token_kinds import strip_marks
from regard.types import AttentionMap, Axis, DenseWeights, Tokens, Trace

Keys = Float[Tensor, " key"]


@check_first_argument
def coverage(trace: Trace, site: str, head: int | None = None) -> Keys:
    """The total weight that each source token received over all steps, sum_i a_ij (Tu et al. 2016).

    It is their linguistic coverage with a fertility of one: about one for each word of a faithful
    translation, near zero for words that were left out.

    >>> import torch
    >>> from regard.measures.decoding import coverage
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    >>> trace = Trace.from_weights(weights, ["我", "爱"], ["I", "love"])
    >>> coverage(trace, "weights")
    tensor([1.2500, 0.7500], dtype=torch.float64)
    """
    total = _cross_map(trace, site).received().total.cpu().double()
    return total.mean(dim=0) if head is None else total[_check_head(trace[site], head)]


@check_first_argument
def fertility(trace: Trace, site: str, head: int | None = None) -> Int[Tensor, " key"]:
    """How many target tokens have their largest weight on each source token.

    It is the fertility of Brown et al. (1993), read from attention. Zero means that no target token
    was translated from this source token.

    >>> import torch
    >>> from regard.measures.decoding import fertility
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]])
    >>> fertility(Trace.from_weights(weights, ["我", "爱", "你"], ["I", "love"]), "weights")
    tensor([2, 1])
    """
    peaks = argmax_sources(trace, site, head)
    return torch.bincount(peaks[peaks >= 0], minlength=len(trace[site].columns))


@check_first_argument
def revisits(trace: Trace, site: str, head: int | None = None) -> Int[Tensor, " key"]:
    """How many times the largest weight returned to each source token after being elsewhere.

    Many returns are a sign of text that is written twice (Tu et al. 2016, "over-translation").

    >>> import torch
    >>> from regard.measures.decoding import revisits
    >>> from regard.types import Trace
    >>> weights = torch.eye(2)[[0, 0, 1, 0]]
    >>> revisits(Trace.from_weights(weights, list("abca"), ["x", "y"]), "weights")
    tensor([1, 0])
    """
    peaks = argmax_sources(trace, site, head)
    peaks = peaks[peaks >= 0]
    # the first step of each run of steps with the same peak
    run_starts = peaks[torch.cat([torch.ones_like(peaks[:1]), peaks.diff()]) != 0]
    visits = torch.bincount(run_starts, minlength=len(trace[site].columns))
    return (visits - 1).clamp_min(0)


@check_first_argument
def monotonicity(trace: Trace, site: str, head: int | None = None) -> float:
    """Whether the source is read in the order in which the target is written: 1 yes, -1 reversed.

    Kendall's (1938) tau between the steps and their expected source positions, sum_j j a_ij /
    sum_j a_ij: the share of pairs of steps in order less that of pairs in disorder. NaN with fewer
    than two steps.

    >>> import torch
    >>> from regard.measures.decoding import monotonicity
    >>> from regard.types import Trace
    >>> trace = Trace.from_weights(torch.eye(3)[[0, 2, 1]], list("abc"), list("xyz"))
    >>> round(monotonicity(trace, "weights"), 3)
    0.333
    """
    positions = expected_positions(trace, site, head)
    positions = positions[~positions.isnan()]
    steps = len(positions)
    if steps < 2:
        return float("nan")
    # pairs of steps in order minus pairs in disorder, one step against all later ones at a time
    order = sum(
        int((positions[step + 1 :] - positions[step]).sign().sum()) for step in range(steps - 1)
    )
    return order / (steps * (steps - 1) / 2)


def expected_positions(trace: Trace, site: str, head: int | None = None) -> Float[Tensor, " query"]:
    """The expected source position of each step; NaN for a step that attends to nothing."""
    strips = []
    for weights in _row_strips(trace, site, head):
        positions = torch.arange(weights.shape[1], dtype=torch.float64)
        strips.append((weights * positions).sum(dim=1) / weights.sum(dim=1))
    return torch.cat(strips)


def argmax_sources(trace: Trace, site: str, head: int | None = None) -> Int[Tensor, " query"]:
    """The source token with the largest weight of each step, -1 for a step that attends nowhere."""
    strips = []
    for weights in _row_strips(trace, site, head):
        largest, key = weights.max(dim=1)
        strips.append(key.masked_fill(~(largest > 0), -1))
    return torch.cat(strips)


@check_first_argument
def merge_words(trace: Trace, site: str) -> Trace:
    """The cross map between words: pieces merged as by `merge_pieces`, special tokens left out.

    A word receives the sum of what its pieces receive, and attends as they do on average. Rows are
    named by the tokens that they produced, where these are known. What special tokens received
    belongs to no word, so that rows sum to less than one.

    >>> import torch
    >>> from regard.measures.decoding import coverage, merge_words
    >>> from regard.types import Tokens, Trace
    >>> source = Tokens(("▁un", "seen", "</s>"), words=(0, 0, None), special=(False, False, True))
    >>> trace = Trace.from_weights(torch.tensor([[0.5, 0.25, 0.25]]), ["看"], source)
    >>> words = merge_words(trace, "weights")
    >>> words.streams["keys"], coverage(words, "weights").item()
    (Tokens('unseen'), 0.75)
    """
    attention_map = _cross_map(trace, site)
    target_pieces = trace.tokens(
        attention_map.rows if attention_map.produced is None else attention_map.produced
    )
    source_pieces = trace.tokens(attention_map.columns)
    rows, columns = _word_numbers(target_pieces), _word_numbers(source_pieces)
    weights = torch.stack([merge_pieces(head, rows, columns) for head in attention_map.weights()])
    streams = {
        attention_map.rows.stream: _word_tokens(target_pieces, rows),
        attention_map.columns.stream: _word_tokens(source_pieces, columns),
    }
    target_words, source_words = (
        Axis(axis.stream, tuple(range(len(streams[axis.stream]))))
        for axis in (attention_map.rows, attention_map.columns)
    )
    merged = AttentionMap(site, "cross", target_words, source_words, DenseWeights(weights))
    return Trace(streams, (replace(merged, head_indices=attention_map.head_indices),))


def _cross_map(trace: Trace, site: str) -> AttentionMap:
    """The map of a site; an `InputError` if it is not cross-attention."""
    attention_map = trace[site]
    if attention_map.kind != "cross":
        known = [one.site for one in trace.of("cross")]
        raise InputError(
            f"expected a site that looks from what is written at a source, got {site!r} of kind "
            f"{attention_map.kind!r}; this trace has {', '.join(known) or 'none'}"
        )
    return attention_map


def _check_head(attention_map: AttentionMap, head: int) -> int:
    """The head, if the map has it; an `InputError` otherwise."""
    if not 0 <= head < attention_map.heads:
        raise InputError(
            f"no head {head} at {attention_map.site!r}; it has heads 0 to {attention_map.heads - 1}"
        )
    return head


def _row_strips(trace: Trace, site: str, head: int | None) -> Iterator[Float[Tensor, "query key"]]:
    """The weights of one head, or the mean over all heads if it is None, in strips of rows."""
    attention_map = _cross_map(trace, site)
    if head is not None:
        attention_map = attention_map.select([_check_head(attention_map, head)])
    # callers concatenate the strips, which needs at least one: a map without rows gives this alone
    yield torch.zeros(0, len(attention_map.columns), dtype=torch.float64)
    for _, weights in attention_map.row_strips():
        yield weights.cpu().double().mean(dim=0)


def _word_numbers(tokens: Tokens) -> list[int | None]:
    """The word of each piece, counted from 0; None for a special token."""
    special = tokens.special or (False,) * len(tokens)
    words = tokens.words or range(len(tokens))  # without word numbers, each token is a word
    kept = [None if marked else word for word, marked in zip(words, special, strict=True)]
    order = {word: n for n, word in enumerate(dict.fromkeys(w for w in kept if w is not None))}
    return [None if word is None else order[word] for word in kept]


def _word_tokens(tokens: Tokens, numbers: Sequence[int | None]) -> Tokens:
    """The words as tokens: the texts of their pieces joined, without the tokenizer's marks."""
    texts = [""] * (max((n for n in numbers if n is not None), default=-1) + 1)
    for text, number in zip(tokens.texts, numbers, strict=True):
        if number is not None:
            texts[number] += strip_marks(text)
    return Tokens(tuple(texts), named=tokens.named)
