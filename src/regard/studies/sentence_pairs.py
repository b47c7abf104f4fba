"""Sentence pairs as words, with the links that people drew between them, read from files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.errors import FileError, InputError
from regard.measures import GoldLinks, read_gold_links
from regard.unicode import HAN_OR_KANA_CHARACTER

_CLOSES = re.compile(
    r"[.,!?;:%)\]}…’”]+|['’]\w+|n['’]t", re.ASCII
)  # written without a space before
_OPENS = frozenset("([{“‘$")  # written without a space after
_BAR = " ||| "


@dataclass(frozen=True)
class SentencePair:
    """A source and a target sentence as words, and the gold links between the words, if any.

    `spaced` says for source and target whether spaces separate the words, as in English.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    gold: GoldLinks | None = None
    spaced: tuple[bool, bool] = (True, False)

    def text(self, side: int) -> str:
        """The sentence as it is written: the source for side 0, the target for side 1."""
        words = (self.source, self.target)[side]
        gaps = spaces_before(words, self.spaced[side])
        return "".join(gap + word for gap, word in zip(gaps, words, strict=True))


def spaces_before(words: Sequence[str], spaced: bool) -> list[str]:
    """The space or nothing that stands before each word: punctuation follows without a space.

    >>> from regard.studies.sentence_pairs import spaces_before
    >>> spaces_before(["I", "did", "n't", "(", "really", ")", "."], True)
    ['', ' ', '', ' ', '', '', '']
    """
    gaps: list[str] = []
    opened = quoted = False
    for number, word in enumerate(words):
        closes = _CLOSES.fullmatch(word) is not None or (word == '"' and quoted)
        gaps.append(" " if spaced and number and not opened and not closes else "")
        quoted = quoted != (word == '"')
        opened = word in _OPENS or (word == '"' and quoted)
    return gaps


def read_sentence_pairs(
    links: Path, words: Path | None = None, *, first: int = 0, reverse: bool = False
) -> list[SentencePair]:
    """Read sentence pairs with gold links from one or two files.

    One file has three columns with tabs between: source words, target words and links, each
    separated by spaces. Of two files, `links` has the links alone, one line for each line
    `source ||| target` (or with a tab between) of the file `words`. `first` is the number of the
    first word, 0 or 1; `reverse` says that the files have the target first.
    """
    rows = _read_lines(links)
    if not rows:
        raise FileError(f"{links} has no line; expected sentences with their links")
    has_columns = "\t" in rows[0]
    if not has_columns and words is None:
        raise FileError(
            f"{links}, line 1: expected words, words and links with tabs between, "
            f"got {rows[0][:60]!r}"
        )
    if words is None or has_columns:
        lines = _split_columns(links, rows)
    else:
        lines = _join_files(links, rows, words)
    sentences = []
    for number, (above, below, text) in enumerate(lines, 1):
        try:
            sentences.append(_sentence_pair(above.split(), below.split(), text, first, reverse))
        except InputError as error:
            raise FileError(f"{links}, line {number}: {error}") from error
    return sentences


def _read_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FileError(f"cannot read {str(path)!r}: {reason}") from error


def _split_columns(path: Path, rows: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for number, row in enumerate(rows, 1):
        parts = row.split("\t")
        if len(parts) != 3:
            raise FileError(
                f"{path}, line {number}: expected words, words and links with tabs between, got "
                f"{len(parts)} columns"
            )
        yield parts[0], parts[1], parts[2]


def _join_files(path: Path, rows: Sequence[str], words: Path) -> Iterator[tuple[str, str, str]]:
    lines = _read_lines(words)
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


def _sentence_pair(
    above: Sequence[str], below: Sequence[str], links: str, first: int, reverse: bool
) -> SentencePair:
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
    return SentencePair(tuple(source), tuple(target), gold, spaced)


def _has_spaces(words: Sequence[str]) -> bool:
    """True if the words are of a language that writes spaces between them, unlike Chinese."""
    return not HAN_OR_KANA_CHARACTER.search("".join(words))
