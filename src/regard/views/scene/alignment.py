"""Tokens of two streams side by side: one text in two spellings is cut where both cut it."""

from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import accumulate

from regard.views.scene.streams import TokenStream
from regard.views.scene.values import SceneTrace

Groups = tuple[tuple[int, int, int, int], ...]


def align_traces(first: SceneTrace, second: SceneTrace) -> Mapping[tuple[str, str], Groups]:
    """The alignment of each pair of streams that are rows, or columns, of both traces' sites."""
    sides = [
        {(site.rows.stream, site.columns.stream) for site in each.sites} for each in (first, second)
    ]
    pairs = {
        pair for mine in sides[0] for other in sides[1] for pair in zip(mine, other, strict=True)
    }
    return {
        (one, two): align_streams(first.streams[one], second.streams[two])
        for one, two in sorted(pairs)
    }


def align_streams(first: TokenStream, second: TokenStream) -> Groups:
    """Runs of tokens [a0, a1) and [b0, b1) that spell the same words, in their order.

    Where the texts differ, what lies between words that agree stands together.
    """
    if first.plain == second.plain:
        return tuple((place, place + 1, place, place + 1) for place in range(len(first)))
    words = [_words(each) for each in (first, second)]
    found: list[tuple[int, int, int, int]] = []
    mine, its = ([text for text, _, _ in each] for each in words)
    for tag, i0, i1, j0, j1 in SequenceMatcher(None, mine, its, autojunk=False).get_opcodes():
        if tag == "equal":
            spans = zip(words[0][i0:i1], words[1][j0:j1], strict=True)
            found += [(a0, a1, b0, b1) for (_, a0, a1), (_, b0, b1) in spans]
        else:
            found += _between(words[0][i0:i1], words[1][j0:j1])
    return tuple(found)


Words = list[tuple[str, int, int]]


def _words(stream: TokenStream) -> Words:
    ends = (*stream.words[1:], len(stream))
    spans = zip(stream.words, ends, strict=True)
    return [(_spelled(stream, start, stop), start, stop) for start, stop in spans]


def _spelled(stream: TokenStream, start: int, stop: int) -> str:
    """A word without case and spaces; special tokens are called differently, and are all alike."""
    if start in stream.special:
        return "\0"
    return "".join("".join(stream.plain[start:stop]).casefold().split())


def _between(mine: Words, other: Words) -> list[tuple[int, int, int, int]]:
    """Words that are not the same: cut where both spell as many characters so far."""
    if "".join(text for text, _, _ in mine) != "".join(text for text, _, _ in other):
        return [_span(mine, other)]
    lengths = [list(accumulate(len(text) for text, _, _ in each)) for each in (mine, other)]
    found, i0, j0 = [], 0, 0
    for length in sorted({*lengths[0]} & {*lengths[1]}):
        i1 = len(lengths[0]) - lengths[0][::-1].index(length)
        j1 = len(lengths[1]) - lengths[1][::-1].index(length)
        found.append(_span(mine[i0:i1], other[j0:j1]))
        i0, j0 = i1, j1
    return found


def _span(mine: Words, other: Words) -> tuple[int, int, int, int]:
    a0, a1 = (mine[0][1], mine[-1][2]) if mine else (0, 0)
    b0, b1 = (other[0][1], other[-1][2]) if other else (0, 0)
    return a0, a1, b0, b1
