"""The search for the best spans over the windows of a text, by logits of starts and ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["ScoredSpan", "WindowLogits", "search_spans"]

LONGEST_ANSWER = 48  # tokens
_PER_WINDOW = 20  # spans of each window that are considered


class ScoredSpan(NamedTuple):
    """A span of a window by its first and last token of the text, and its log-probability."""

    log_probability: float
    window: int
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class WindowLogits:
    """The logits of start and end (last axis) for each token of the text, and for "no answer"."""

    tokens: Float[Tensor, "token 2"]
    no_answer: Float[Tensor, " 2"]


def search_spans(
    windows: Sequence[WindowLogits], *, no_answer: bool = True
) -> tuple[list[ScoredSpan], float]:
    """The best spans in descending order, and the log-probability that there is no answer.

    Starts and ends are normalised over the tokens of all windows together (Clark and Gardner 2018,
    shared normalisation), so that spans of different windows can be compared. "No answer" takes
    part with its logits in the window where they are lowest, as a text has no answer only if no
    window has one (Devlin et al. 2019, section 4.3). With no_answer=False it takes no part, and its
    log-probability is -inf.

    >>> import torch
    >>> from regard.models.spans import WindowLogits, search_spans
    >>> tokens = torch.tensor([[9.0, 0.0], [0.0, 0.0], [0.0, 9.0]])
    >>> spans, none = search_spans([WindowLogits(tokens, torch.zeros(2))])
    >>> spans[0].first, spans[0].last, round(spans[0].log_probability, 3)
    (0, 2, -0.001)
    """
    parts = [window.tokens.double() for window in windows]
    null = min(
        (window.no_answer.double() for window in windows), key=lambda each: float(each.sum())
    )
    if no_answer:
        parts.append(null[None])
    normaliser = torch.cat(parts).logsumexp(0)
    spans = [
        span
        for index, window in enumerate(windows)
        for span in _window_spans(index, window.tokens.double() - normaliser)
    ]
    spans.sort(key=lambda span: -span.log_probability)
    return spans, float((null - normaliser).sum()) if no_answer else float("-inf")


def _window_spans(index: int, logs: Float[Tensor, "token 2"]) -> list[ScoredSpan]:
    """The best spans of one window, no longer than LONGEST_ANSWER tokens."""
    count, reach = len(logs), min(LONGEST_ANSWER, len(logs))
    starts, ends = logs.unbind(-1)
    beyond = ends.new_full((reach - 1,), -torch.inf)
    # row i has the ends i, i + 1, ..., i + reach - 1
    scores = starts[:, None] + torch.cat([ends, beyond]).unfold(0, reach, 1)
    best = scores.flatten().topk(min(_PER_WINDOW, count))
    pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [
        ScoredSpan(score, index, place // reach, place // reach + place % reach)
        for score, place in pairs
        if score > -torch.inf
    ]
