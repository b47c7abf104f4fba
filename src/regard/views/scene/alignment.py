"""Align the tokens of two traces of one text, which may come from different tokenizers.

The text is cut into groups wherever both tokenizers cut it, at words if possible.
"""

from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import accumulate

from regard.views.scene.streams import TokenStream
from regard.views.scene.values import SceneTrace

Groups = tuple[tuple[int, int, int, int], ...]


def align_traces(first: SceneTrace, second: SceneTrace) -> Mapping[tuple[str, str], Groups]:
    """Aligned groups of tokens for each pair of streams that can be compared."""
    sides = [
        {(site.rows.stream, site.columns.stream) for site in trace.sites}
        for trace in (first, second)
    ]
    pairs = {
        pair for mine in sides[0] for other in sides[1] for pair in zip(mine, other, strict=True)
    }
    return {
        (mine, other): align_streams(first.streams[mine], second.streams[other])
        for mine, other in sorted(pairs)
    }


def align_streams(first: TokenStream, second: TokenStream) -> Groups:
    """Runs of tokens [a0, a1) and [b0, b1) that spell the same words, in their order.

    Where the texts differ, all tokens between two words that agree form one group.
    """
    if first.plain == second.plain:
        return tuple((index, index + 1, index, index + 1) for index in range(len(first)))
    words = [_stream_words(stream) for stream in (first, second)]
    groups: list[tuple[int, int, int, int]] = []
    first_keys, second_keys = ([key for key, _, _ in side] for side in words)
    matcher = SequenceMatcher(None, first_keys, second_keys, autojunk=False)
    for tag, i0, i1, j0, j1 in matcher.get_opcodes():
        if tag == "equal":
            spans = zip(words[0][i0:i1], words[1][j0:j1], strict=True)
            groups += [(a0, a1, b0, b1) for (_, a0, a1), (_, b0, b1) in spans]
        else:
            groups += _align_differing(words[0][i0:i1], words[1][j0:j1])
    return tuple(groups)


Words = list[tuple[str, int, int]]  # key, first token and end of each word


def _stream_words(stream: TokenStream) -> Words:
    """The words of a stream with the keys that they are compared by."""
    ends = (*stream.words[1:], len(stream))
    spans = zip(stream.words, ends, strict=True)
    return [(_word_key(stream, start, stop), start, stop) for start, stop in spans]


def _word_key(stream: TokenStream, start: int, stop: int) -> str:
    """What words are compared by: letters without case and spaces; all special tokens are equal."""
    if start in stream.special:
        return "\0"
    return "".join("".join(stream.plain[start:stop]).casefold().split())


def _align_differing(first: Words, second: Words) -> list[tuple[int, int, int, int]]:
    """Groups of words that differ: cut where both sides have spelled equally many characters."""
    if "".join(key for key, _, _ in first) != "".join(key for key, _, _ in second):
        return [_group_of(first, second)]
    lengths = [list(accumulate(len(key) for key, _, _ in side)) for side in (first, second)]
    groups, i0, j0 = [], 0, 0
    for length in sorted({*lengths[0]} & {*lengths[1]}):
        i1 = len(lengths[0]) - lengths[0][::-1].index(length)
        j1 = len(lengths[1]) - lengths[1][::-1].index(length)
        groups.append(_group_of(first[i0:i1], second[j0:j1]))
        i0, j0 = i1, j1
    return groups


def _group_of(first: Words, second: Words) -> tuple[int, int, int, int]:
    """The runs of tokens that some words of both sides cover."""
    a0, a1 = (first[0][1], first[-1][2]) if first else (0, 0)
    b0, b1 = (second[0][1], second[-1][2]) if second else (0, 0)
    return a0, a1, b0, b1
