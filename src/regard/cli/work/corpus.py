"""A corpus on the command line: texts or pairs of a file, read again and again from its start."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from regard.errors import FileError
from regard.training.corpora import bar_separated_pairs, numbered, pairs, texts

_KEYS = ("text", "source")  # of an object: the first that it has


@dataclass(frozen=True)
class Corpus:
    """The texts of a file by what its name ends with, or its pairs; the first `limit` of them.

    A text is a line, or with `paragraphs` what empty lines part; of .tsv it is the first column,
    of .jsonl the key "text", or else "source".
    """

    path: Path
    pairs: bool = False
    paragraphs: bool = False
    limit: int | None = None

    def __iter__(self) -> Iterator[str | tuple[str, str]]:
        return islice(self._pairs() if self.pairs else self._texts(), self.limit)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        known = self.path.suffix in (".tsv", ".jsonl")
        for each in pairs(self.path) if known else bar_separated_pairs(self.path):
            yield each.source, each.target

    def _texts(self) -> Iterator[str]:
        found = texts(self.path)  # says so if there is no such file
        if self.paragraphs:
            yield from found
            return
        for number, line in numbered(self.path):
            text = self._text(number, line) if line.strip() else ""
            if text:
                yield text

    def _text(self, number: int, line: str) -> str:
        if self.path.suffix == ".tsv":
            return line.split("\t")[0].strip()
        if self.path.suffix != ".jsonl":
            return line.strip()
        try:
            found = json.loads(line)
            said = next(found[key] for key in _KEYS if key in found)
        except (ValueError, TypeError, StopIteration):
            said = None
        if not isinstance(said, str):
            raise FileError(
                f'{self.path}, line {number}: expected an object with "text", got {line[:60]!r}'
            )
        return said.strip()
