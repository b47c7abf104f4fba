"""Pairs of sentences as words with the links between them, read from files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import FileError, InputError
from regard.measures import GoldLinks, read_gold_links
from regard.unicode import HAN_OR_KANA_CHARACTER

_CLOSES = re.compile(r"[.,!?;:%)\]}…’”]+|['’]\w+|n['’]t", re.ASCII)  # stuck to the word before
_OPENS = frozenset("([{“‘$")  # stuck to the word after
_BAR = " ||| "


@dataclass(frozen=True)
class Sentence:
    """A pair of sentences as the words that its gold links count, and the links if there are any.

    `spaced` says of source and target whether their words are parted by spaces.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    gold: GoldLinks | None = None
    spaced: tuple[bool, bool] = (True, False)

    def text(self, side: int) -> str:
        """The sentence of a side as it is written."""
        words = (self.source, self.target)[side]
        gaps = spaces(words, self.spaced[side])
        return "".join(gap + word for gap, word in zip(gaps, words, strict=True))


def spaces(words: Sequence[str], spaced: bool) -> list[str]:
    """What stands before each word when it is written: marks stick to their words.

    >>> from regard.studies.sentence_pairs import spaces
    >>> spaces(["I", "did", "n't", "(", "really", ")", "."], True)
    ['', ' ', '', ' ', '', '', '']
    """
    found: list[str] = []
    opened = quoted = False
    for number, word in enumerate(words):
        closes = _CLOSES.fullmatch(word) is not None or (word == '"' and quoted)
        found.append(" " if spaced and number and not opened and not closes else "")
        quoted = quoted != (word == '"')
        opened = word in _OPENS or (word == '"' and quoted)
    return found


def read_sentences(
    links: Path, words: Path | None = None, *, first: int = 0, reverse: bool = False
) -> list[Sentence]:
    """The sentences of a file of columns: words, words and links, each parted by spaces.

    Or `links` has nothing but the links, a line for each line `source ||| target` (or with a tab
    between) of the file `words`. `first` is the number of the first word, and `reverse` says that
    the file has the target first.
    """
    rows = _rows(links)
    if not rows:
        raise FileError(f"{links} has no line; expected sentences with their links")
    alone = "\t" in rows[0]
    if not alone and words is None:
        raise FileError(
            f"{links}, line 1: expected words, words and links with tabs between, "
            f"got {rows[0][:60]!r}"
        )
    lines = _columns(links, rows) if words is None or alone else _beside(links, rows, words)
    found = []
    for number, (above, below, text) in enumerate(lines, 1):
        try:
            found.append(_sentence(above.split(), below.split(), text, first, reverse))
        except InputError as error:
            raise FileError(f"{links}, line {number}: {error}") from error
    return found


def _rows(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FileError(f"cannot read {str(path)!r}: {reason}") from error


def _columns(path: Path, rows: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for number, row in enumerate(rows, 1):
        parts = row.split("\t")
        if len(parts) != 3:
            raise FileError(
                f"{path}, line {number}: expected words, words and links with tabs between, got "
                f"{len(parts)} columns"
            )
        yield parts[0], parts[1], parts[2]


def _beside(path: Path, rows: Sequence[str], words: Path) -> Iterator[tuple[str, str, str]]:
    lines = _rows(words)
    if len(lines) != len(rows):
        raise FileError(
            f"expected a line of links for each pair, got {len(rows)} in {path} and {len(lines)} "
            f"in {words}"
        )
    for number, (line, row) in enumerate(zip(lines, rows, strict=True), 1):
        parts = line.split(_BAR if _BAR in line else "\t")
        if len(parts) < 2:
            raise FileError(
                f"{words}, line {number}: expected source ||| target, got {line[:60]!r}"
            )
        yield parts[0], parts[1], row


def _sentence(
    above: Sequence[str], below: Sequence[str], links: str, first: int, reverse: bool
) -> Sentence:
    gold = read_gold_links(links, first=first, reverse=reverse)
    source, target = (below, above) if reverse else (above, below)
    for one, other in gold.possible:
        if one >= len(source) or other >= len(target):
            raise InputError(
                f"a link between source word {one + 1} and target word {other + 1} lies beyond "
                f"the {len(source)} and {len(target)} words; are the links counted from "
                f"{1 - first}, or the other way round?"
            )
    spaced = (_has_spaces(source), _has_spaces(target))
    return Sentence(tuple(source), tuple(target), gold, spaced)


def _has_spaces(words: Sequence[str]) -> bool:
    """True if the words are of a language that writes spaces between them, unlike Chinese."""
    return not HAN_OR_KANA_CHARACTER.search("".join(words))
