"""Helpers of the checks: hits from the numbers of heads, and tokens as sentences quote them."""

from collections.abc import Callable, Iterator
from typing import Any

from regard.diagnosis.check import Hit
from regard.diagnosis.evidence import Series, Site
from regard.diagnosis.limits import Limit
from regard.types import Trace

Words = Callable[[int, int], dict[str, Any]]  # called with a head and the index of a trace


def head_hits(
    site: Site, series: Series, limit: Limit, words: Words = lambda head, example: {}
) -> Iterator[Hit]:
    """A hit for each head whose mean over the traces crosses the limit, the most extreme first.

    `words` returns further fields of the sentence for a head in the trace that shows it best.
    """
    means = series.mean.tolist()
    crossed = [head for head, mean in enumerate(means) if limit.crossed(mean)]
    crossed.sort(key=lambda head: means[head], reverse=limit.side == "above")
    for head in crossed:
        example = series.extreme(head, limit.side)
        yield Hit(
            means[head],
            site.name,
            head,
            example,
            series.held(head, limit.crossed),
            series.known(head),
            words(head, example),
        )


def word_at(trace: Trace, site: str, column: int) -> str:
    """The token of a column in quotation marks, or "#3" if the tokens have no names."""
    tokens = trace.tokens(trace[site].columns)
    return quoted(tokens.texts[column]) if tokens.named else f"#{column}"


def quoted(text: str) -> str:
    """A token or word in straight quotation marks, without the tokenizer's mark of spaces."""
    return f'"{text.replace("▁", " ").strip() or text}"'
