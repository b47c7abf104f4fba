"""Vectors for words: seeded random ones, or those of a file in the text format of word2vec."""

import math
from codecs import BOM_UTF8
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch

from regard.errors import FileError, InputError, NotFiniteError

Vectors = dict[str, list[float]]

_LONGEST = 1 << 20  # bytes of a line; more is another format


class _Line(NamedTuple):
    path: Path
    number: int
    word: str
    numbers: list[bytes]

    def wrong(self, what: str) -> str:
        """What is wrong with this line, in a sentence that names it."""
        return f"{self.path}, line {self.number}: {what}"


def random_vectors(words: Iterable[str], dim: int, seed: int) -> Vectors:
    """A vector of `dim` standard normal numbers for each different word, in their order."""
    different = list(dict.fromkeys(words))
    source = torch.Generator().manual_seed(seed)
    rows = torch.randn(len(different), dim, generator=source).tolist()
    return dict(zip(different, rows, strict=True))


def read_vectors(path: Path, words: Collection[str]) -> Vectors:
    """The vectors of these words, from lines `word v1 v2 ...` after an optional `count dim`.

    The file is read line by line until every word was met, and only their vectors are kept; of a
    word that comes twice, the first.
    """
    wanted, vectors = set(words), Vectors()
    try:
        file = path.open("rb")
    except OSError as error:
        raise FileError(f"cannot read the vectors {path}: {error.strerror}") from error
    with file:
        for line in _records(_lines(file, path)):
            if line.word in wanted and line.word not in vectors:
                vectors[line.word] = _floats(line)
            if len(vectors) == len(wanted):
                return vectors
    missing = ", ".join(repr(word) for word in dict.fromkeys(words) if word not in vectors)
    raise InputError(f"{path} has no vector for {missing}; leave out such words or add a line")


def _lines(file: BinaryIO, path: Path) -> Iterator[_Line]:
    number = 0
    while raw := file.readline(_LONGEST):
        number += 1
        # Bytes are split at the blanks of ASCII alone: those of other scripts may be words.
        word, *numbers = raw.removeprefix(BOM_UTF8 if number == 1 else b"").split() or [b""]
        line = _Line(path, number, word.decode(errors="replace"), numbers)
        if len(raw) == _LONGEST:
            raise FileError(line.wrong("too long for a word and its numbers"))
        if line.word.encode() != word:
            raise FileError(line.wrong("not UTF-8 text; expected word2vec's text format"))
        if word:
            yield line


def _records(lines: Iterator[_Line]) -> Iterator[_Line]:
    """The lines with a vector, all as long as the header or the first of them says."""
    dim = None
    for line in lines:
        count = len(line.numbers)
        if dim is None and count == 1 and _is_header(line):
            dim = int(line.numbers[0])
            continue
        if not count:
            raise FileError(line.wrong(f"expected a word and its numbers, got {_short(line.word)}"))
        dim = dim or count
        if count != dim:
            word = _short(line.word)
            raise FileError(line.wrong(f"expected {dim} numbers as above, got {count} for {word}"))
        yield line


def _is_header(line: _Line) -> bool:
    dim = line.numbers[0]
    return line.number == 1 and line.word.isdecimal() and dim.isdigit() and len(dim) < 10


def _floats(line: _Line) -> list[float]:
    vector = []
    for text in line.numbers:
        shown = _short(text.decode(errors="replace"))
        try:
            value = float(text)
        except ValueError:
            raise FileError(line.wrong(f"{shown} is not a number")) from None
        if not math.isfinite(value):
            raise NotFiniteError(line.wrong(f"{shown} is not a finite number"))
        vector.append(value)
    return vector


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
