"""A stream of tokens as a reader sees it: plain texts, spaces, words and sentences."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from regard.types import Tokens
from regard.unicode import cut_text

_NO_SPACE_SCRIPT = re.compile(
    "[\u2018-\u2026\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef]"
)  # Chinese and Japanese have no spaces between words
# One character whose bytes are several pieces is spelled "爱[1/3]", "爱[2/3]", "爱[3/3]".
_SPLIT_CHARACTER = re.compile(r"(.)\[(\d+)/\d+\]", re.DOTALL)
LONGEST_TOKEN = 400  # characters of a token that are drawn or shown at the pointer
_SENTENCE_TAIL = 32  # last characters of a token that show whether a sentence ends with it
_SENTENCE_END = re.compile(
    r"(?:[.!?…]+[\"'”’)\]»]*|[。！？!?]+[”’」』）]*|.*(?:\n|\\n))$", re.DOTALL
)


@dataclass(frozen=True)
class TokenStream:
    """The tokens of one stream, and which of them are a word or a sentence together.

    `texts` are those of the tokenizer without its ▁, `plain` without all of its marks (## and the
    like), `spaced` whether white space stands before a token, `special` the positions of special
    tokens. `words` and `sentences` are the positions where each begins. `named` is False for
    positions without texts. `grid` is that of image patches, the last tokens of the stream.
    `marked` are positions that pictures underline, such as those of an answer. Texts of more than
    LONGEST_TOKEN characters are cut here, once for all pictures; the trace has them whole.
    """

    texts: tuple[str, ...]
    plain: tuple[str, ...]
    spaced: tuple[bool, ...]
    special: tuple[int, ...]
    words: tuple[int, ...]
    sentences: tuple[int, ...]
    named: bool = True
    grid: tuple[int, int] | None = None
    marked: tuple[int, ...] = ()

    @classmethod
    def of(cls, tokens: Tokens) -> "TokenStream":
        """The stream of a trace's tokens."""
        special = tokens.special or (False,) * len(tokens)
        starts = _word_starts(tokens, special)
        pairs = zip(tokens.texts, special, strict=True)
        plain = tuple(text if out else _plain_text(text) for text, out in pairs)
        return cls(
            tuple(cut_text(text.removeprefix("▁") or text, LONGEST_TOKEN) for text in tokens.texts),
            tuple(cut_text(text, LONGEST_TOKEN) for text in plain),
            _has_space_before(tokens, starts),
            tuple(position for position, is_special in enumerate(special) if is_special),
            tuple(position for position, is_first in enumerate(starts) if is_first),
            _sentence_starts(plain, starts, special if tokens.named else [True] * len(tokens)),
            tokens.named,
            tokens.grid,
        )

    def __len__(self) -> int:
        return len(self.texts)

    def starts(self, unit: str) -> tuple[int, ...]:
        """Where each piece, word or sentence begins."""
        return {
            "piece": tuple(range(len(self))),
            "word": self.words,
            "sentence": self.sentences,
        }[unit]

    def text(self, start: int, stop: int) -> str:
        """The running text of tokens from start to stop."""
        pairs = zip(self.plain[start:stop], self.spaced[start:stop], strict=True)
        return "".join(" " * space + plain for plain, space in pairs).strip()

    def unit_text(self, unit: str, start: int, stop: int) -> str:
        """What a unit is called: a piece as it is spelled, a word joined, a sentence as text."""
        if unit == "piece":
            return self.texts[start]
        return "".join(self.plain[start:stop]) if unit == "word" else self.text(start, stop)


def _plain_text(text: str) -> str:
    """A token's text without the marks of its tokenizer."""
    bare = text.replace("▁", " ").removesuffix("</w>").strip(" ")
    if bare.startswith("##") and len(bare) > 2:
        bare = bare[2:]
    return _SPLIT_CHARACTER.sub(lambda match: match[1] if match[2] == "1" else "", bare)


def _word_starts(tokens: Tokens, special: Sequence[bool]) -> list[bool]:
    """Which tokens begin a word; special tokens are words of their own."""
    if tokens.words is None:
        return [True] * len(tokens)
    numbers = tokens.words
    return [
        at == 0 or special[at] or special[at - 1] or number != numbers[at - 1]
        for at, number in enumerate(numbers)
    ]


def _has_space_before(tokens: Tokens, starts: Sequence[bool]) -> tuple[bool, ...]:
    """Which tokens follow white space: by offsets if known, else by marks, else by words."""
    if tokens.offsets is not None:
        stops = accumulate((stop for _, stop in tokens.offsets), max, initial=0)
        pairs = zip(tokens.offsets, stops, tokens.texts, strict=False)
        return tuple(start > stop > 0 or _has_space_mark(text) for (start, _), stop, text in pairs)
    if any(map(_has_space_mark, tokens.texts)):
        return tuple(map(_has_space_mark, tokens.texts))
    ends = [text[-1:] for text in tokens.texts]
    return tuple(
        first
        and at > 0
        and not (_NO_SPACE_SCRIPT.match(ends[at - 1]) and _NO_SPACE_SCRIPT.match(text))
        for at, (first, text) in enumerate(zip(starts, tokens.texts, strict=True))
    )


def _has_space_mark(text: str) -> bool:
    """True if the tokenizer marks that white space stands before the token."""
    return text.startswith(("▁", " "))


def _sentence_starts(
    plain: Sequence[str], starts: Sequence[bool], alone: Sequence[bool]
) -> tuple[int, ...]:
    """A sentence begins with the first word after an end mark; tokens `alone` are their own."""
    sentence_starts, ended = [], True
    for position, text in enumerate(plain):
        closes = _CLOSING_MARKS.fullmatch(text) is not None
        if alone[position] or (ended and starts[position] and not closes):
            sentence_starts.append(position)
            ended = alone[position]
        if not alone[position] and _SENTENCE_END.search(text[-_SENTENCE_TAIL:]):
            ended = True
    return tuple(sentence_starts)


_CLOSING_MARKS = re.compile(r"[\"'”’)\]»」』）.!?…。！？]+")
