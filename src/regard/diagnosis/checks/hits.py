"""From a number of each head over several traces to the heads where it crosses a limit."""

from collections.abc import Callable, Iterator
from typing import Any

from regard.diagnosis.check import Hit
from regard.diagnosis.evidence import Series, Site
from regard.diagnosis.limits import Limit
from regard.types import Trace

Words = Callable[[int, int], dict[str, Any]]  # of a head, in the trace of this number


def head_hits(
    site: Site, series: Series, limit: Limit, words: Words = lambda head, example: {}
) -> Iterator[Hit]:
    """The heads whose mean over the traces crosses the limit, the farthest first."""
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
    """The token of a column as a sentence quotes it; its place where tokens are not known."""
    tokens = trace.tokens(trace[site].columns)
    return quoted(tokens.texts[column]) if tokens.named else f"#{column}"


def quoted(text: str) -> str:
    """A token or a word in the quotation marks that all languages read."""
    return f'"{text.replace("▁", " ").strip() or text}"'
