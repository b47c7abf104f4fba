"""Vectors of words: random ones from a seed, or those of a file in word2vec's text format."""

import math
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch

from regard.errors import FileError, InputError, NotFiniteError

__all__ = [
    "WordVectors",
    "iterate_word_vectors",
    "random_word_vectors",
    "read_known_vectors",
    "read_word_vectors",
]

WordVectors = dict[str, list[float]]

_LONGEST_LINE = 1 << 20  # bytes; a longer line is of another format
_QUOTED_LENGTH = 40  # characters of a word that a message quotes


class _Line(NamedTuple):
    """A line of the file, split into its word and its numbers, which are still bytes."""

    path: Path
    number: int
    word: str
    numbers: list[bytes]

    def error(self, problem: str) -> str:
        """The message about a problem of this line."""
        return f"{self.path}, line {self.number}: {problem}"


def random_word_vectors(words: Iterable[str], dim: int, seed: int) -> WordVectors:
    """A vector of `dim` standard normal numbers for each different word, drawn in their order.

    >>> from regard.models.word_vectors import random_word_vectors
    >>> vectors = random_word_vectors(["我", "爱", "我"], dim=4, seed=0)
    >>> list(vectors), len(vectors["爱"])
    (['我', '爱'], 4)
    """
    different = list(dict.fromkeys(words))
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(len(different), dim, generator=generator).tolist()
    return dict(zip(different, rows, strict=True))


def read_word_vectors(path: Path, words: Collection[str]) -> WordVectors:
    """The vectors of these words, from lines `word v1 v2 ...` after an optional line `count dim`.

    The file is read line by line until every word was found, and only the vectors of these words
    are kept, so that files of many gigabytes can be used. If a word has two lines, the first
    counts.
    """
    vectors = read_known_vectors(path, words)
    missing = ", ".join(repr(word) for word in dict.fromkeys(words) if word not in vectors)
    if missing:
        raise InputError(f"{path} has no vector for {missing}; leave out such words or add a line")
    return vectors


def read_known_vectors(path: Path, words: Collection[str]) -> WordVectors:
    """The vectors of those of the words that the file has, read as `read_word_vectors` does."""
    wanted, vectors = set(words), WordVectors()
    for word, vector in iterate_word_vectors(path, wanted.__contains__):
        vectors.setdefault(word, vector)
        if len(vectors) == len(wanted):
            break
    return vectors


def iterate_word_vectors(
    path: Path, wanted: Callable[[str], bool]
) -> Iterator[tuple[str, list[float]]]:
    """Each word of a file of vectors that is `wanted`, with its vector, in the file's order."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise FileError(f"cannot read the vectors {path}: {error.strerror}") from error
    with file:
        for line in _vector_lines(_read_lines(file, path)):
            if wanted(line.word):
                yield line.word, _to_floats(line)


def _read_lines(file: BinaryIO, path: Path) -> Iterator[_Line]:
    """The lines that are not empty; a FileError for one that is no UTF-8 text."""
    number = 0
    while raw := file.readline(_LONGEST_LINE):
        number += 1
        # Bytes are split at the blanks of ASCII alone: those of other scripts may be words.
        word, *numbers = raw.removeprefix(BOM_UTF8 if number == 1 else b"").split() or [b""]
        line = _Line(path, number, word.decode(errors="replace"), numbers)
        if len(raw) == _LONGEST_LINE:
            raise FileError(line.error("too long for a word and its numbers"))
        if line.word.encode() != word:
            raise FileError(line.error("not UTF-8 text; expected word2vec's text format"))
        if word:
            yield line


def _vector_lines(lines: Iterator[_Line]) -> Iterator[_Line]:
    """The lines after the header, which all have the dimension of the header or the first line."""
    dim = None
    for line in lines:
        count = len(line.numbers)
        if dim is None and count == 1 and _is_header(line):
            dim = int(line.numbers[0])
            continue
        word = _quote(line.word)
        if not count:
            raise FileError(line.error(f"expected a word and its numbers, got {word}"))
        dim = dim or count
        if count != dim:
            raise FileError(line.error(f"expected {dim} numbers as above, got {count} for {word}"))
        yield line


def _is_header(line: _Line) -> bool:
    """True for a first line of two whole numbers: the count of words and their dimension."""
    dim = line.numbers[0]
    return line.number == 1 and line.word.isdecimal() and dim.isdigit() and len(dim) < 10


def _to_floats(line: _Line) -> list[float]:
    vector = []
    for text in line.numbers:
        quoted = _quote(text.decode(errors="replace"))
        try:
            value = float(text)
        except ValueError:
            raise FileError(line.error(f"{quoted} is not a number")) from None
        if not math.isfinite(value):
            raise NotFiniteError(line.error(f"{quoted} is not a finite number"))
        vector.append(value)
    return vector


def _quote(text: str) -> str:
    """The text in quotation marks for a message, cut if it is long."""
    return repr(text if len(text) <= _QUOTED_LENGTH else f"{text[: _QUOTED_LENGTH - 1]}…")
