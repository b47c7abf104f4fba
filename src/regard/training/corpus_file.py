"""The texts or the pairs of a corpus file, which can be read any number of times."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.documents import parse_json
from regard.errors import FileError
from regard.training.corpora import bar_separated_pairs, data_suffix, numbered, pairs, texts

__all__ = ["CorpusFile"]

_TEXT_KEYS = ("text", "source")  # of an object in .jsonl: the first that it has


@dataclass(frozen=True)
class CorpusFile:
    """The texts of a file, or its pairs (source, target); at most the first `limit` of them.

    A text is a line, or with `paragraphs` the lines up to an empty one. The file's suffix tells
    more: in .tsv the text is the first column, in .jsonl the key "text", or else "source". Pairs
    are two columns of .tsv, the keys "source" and "target" of .jsonl, or lines `source ||| target`.
    """

    path: Path
    pairs: bool = False
    paragraphs: bool = False
    limit: int | None = None

    def __iter__(self) -> Iterator[str | tuple[str, str]]:
        return islice(self._read_pairs() if self.pairs else self._read_texts(), self.limit)

    def _read_pairs(self) -> Iterator[tuple[str, str]]:
        has_columns = data_suffix(self.path) in (".tsv", ".jsonl")
        for pair in pairs(self.path) if has_columns else bar_separated_pairs(self.path):
            yield pair.source, pair.target

    def _read_texts(self) -> Iterator[str]:
        paragraphs = texts(self.path)  # raises if there is no such file
        if self.paragraphs:
            yield from paragraphs
            return
        for number, line in numbered(self.path):
            text = self._text_of_line(number, line) if line.strip() else ""
            if text:
                yield text

    def _text_of_line(self, number: int, line: str) -> str:
        if data_suffix(self.path) == ".tsv":
            return line.split("\t")[0].strip()
        if data_suffix(self.path) != ".jsonl":
            return line.strip()
        try:
            record = parse_json(line, "the line")
            text = next(record[key] for key in _TEXT_KEYS if key in record)
        except (ValueError, TypeError, StopIteration):
            text = None
        if not isinstance(text, str):
            raise FileError(
                f'{self.path}, line {number}: expected an object with "text", got {line[:60]!r}'
            )
        return text.strip()
