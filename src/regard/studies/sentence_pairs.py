"""Sentence pairs as words, with the links that people drew between them, read from files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.arguments import check_first_argument
from regard.errors import FileError, InputError
from regard.measures import GoldLinks, read_gold_links
from regard.unicode import HAN_OR_KANA_CHARACTER

# words that are written without a space before them: closing punctuation, 's, n't
_CLOSES = re.compile(r"[.,!?;:%)\]}…’”]+|['’]\w+|n['’]t", re.ASCII)
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


@check_first_argument
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
    for number, (one, other, pair_links) in enumerate(lines, 1):
        try:
            sentences.append(_sentence_pair(one.split(), other.split(), pair_links, first, reverse))
        except InputError as error:
            raise FileError(f"{links}, line {number}: {error}") from error
    return sentences


def _read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file, with or without a byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FileError(f"cannot read {str(path)!r}: {reason}") from error


def _split_columns(path: Path, rows: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The words of both sentences and the links of each line, from columns separated by tabs."""
    for number, row in enumerate(rows, 1):
        parts = row.split("\t")
        if len(parts) != 3:
            raise FileError(
                f"{path}, line {number}: expected words, words and links with tabs between, got "
                f"{len(parts)} columns"
            )
        yield parts[0], parts[1], parts[2]


def _join_files(path: Path, rows: Sequence[str], words: Path) -> Iterator[tuple[str, str, str]]:
    """The words of both sentences from the file `words`, with the line of links in `rows`."""
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
    one: Sequence[str], other: Sequence[str], links: str, first: int, reverse: bool
) -> SentencePair:
    """The pair of two sentences and a line of links; refused if a link lies beyond the words."""
    gold = read_gold_links(links, first=first, reverse=reverse)
    source, target = (other, one) if reverse else (one, other)
    for source_word, target_word in gold.possible:
        if source_word >= len(source) or target_word >= len(target):
            raise InputError(
                f"a link between source word {source_word + 1} and target word {target_word + 1} "
                f"lies beyond the {len(source)} and {len(target)} words; are the links counted "
                f"from {1 - first}, or the other way round?"
            )
    spaced = (_has_spaces(source), _has_spaces(target))
    return SentencePair(tuple(source), tuple(target), gold, spaced)


def _has_spaces(words: Sequence[str]) -> bool:
    """True if the words are of a language that writes spaces between them, unlike Chinese."""
    return not HAN_OR_KANA_CHARACTER.search("".join(words))
