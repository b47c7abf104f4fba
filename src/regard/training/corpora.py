"""Reading corpora line by line, as pairs of sentences or as texts.

A corpus is an iterable that reads its files anew in each iteration, so that it need not fit into
memory. A FileError about a line names the file and the number of the line.
"""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.documents import parse_json
from regard.errors import FileError, InputError


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


@dataclass(frozen=True)
class PairFiles:
    """Pairs from a file of columns (.tsv), a file of objects (.jsonl), or two parallel files.

    Columns beyond the second are not read. An object has the keys "source" and "target".
    """

    paths: tuple[Path, ...]

    def __iter__(self) -> Iterator[Pair]:
        if len(self.paths) == 2:
            return _parallel_lines(*self.paths)
        (path,) = self.paths
        return _read_pairs(
            path, _pair_from_json if data_suffix(path) == ".jsonl" else _pair_from_columns
        )


@dataclass(frozen=True)
class ConcatenatedCorpus:
    """Several corpora one after the other, as one."""

    parts: tuple[Iterable[Any], ...]

    def __iter__(self) -> Iterator[Any]:
        for part in self.parts:
            yield from part


@dataclass(frozen=True)
class TextFile:
    """The texts of a file, separated by empty lines."""

    path: Path

    def __iter__(self) -> Iterator[str]:
        lines: list[str] = []
        for _, line in numbered(self.path):
            if line.strip():
                lines.append(line)
            elif lines:
                yield "\n".join(lines)
                lines = []
        if lines:
            yield "\n".join(lines)


def pairs(*files: str | Path | Sequence[str | Path]) -> ConcatenatedCorpus:
    """The corpus of pairs in these files; two parallel files are given as a pair of names.

    >>> from regard.training.corpora import pairs
    >>> pairs("missing.tsv")
    Traceback (most recent call last):
    ...
    regard.errors.FileError: no corpus 'missing.tsv'; name a file that is there
    """
    parts = []
    for names in files:
        paths = (Path(names),) if isinstance(names, str | Path) else tuple(map(Path, names))
        if len(paths) not in (1, 2):
            raise InputError(f"expected one file of pairs or two side by side, got {len(paths)}")
        for path in paths:
            check_exists(path)
        parts.append(PairFiles(paths))
    if not parts:
        raise InputError("expected at least one file of pairs, got none")
    return ConcatenatedCorpus(tuple(parts))


def bar_separated_pairs(path: str | Path) -> Iterator[Pair]:
    """The pairs of a file with lines `source ||| target` (the format of word aligners) or a tab."""
    check_exists(Path(path))
    return _read_pairs(Path(path), lambda line: _pair_from_columns(line.replace(" ||| ", "\t", 1)))


def texts(*files: str | Path) -> ConcatenatedCorpus:
    """The corpus of texts in these files, where empty lines separate texts."""
    if not files:
        raise InputError("expected at least one file of text, got none")
    for name in files:
        check_exists(Path(name))
    return ConcatenatedCorpus(tuple(TextFile(Path(name)) for name in files))


def numbered(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1; a FileError for a line that is not UTF-8.

    A file whose name ends with .gz is decompressed as it is read.
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            for number, line in enumerate(file, 1):
                yield number, _decode_line(path, number, line)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FileError(f"{path} is no whole gzip file ({error}); write it again") from error


def data_suffix(path: Path) -> str:
    """The suffix that tells the format of a file, without .gz.

    >>> from pathlib import Path
    >>> from regard.training.corpora import data_suffix
    >>> data_suffix(Path("train.tsv.gz")), data_suffix(Path("train.jsonl"))
    ('.tsv', '.jsonl')
    """
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def _decode_line(path: Path, number: int, line: bytes) -> str:
    """A line as text, without its end."""
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path}, line {number}: expected UTF-8, got the byte 0x{line[error.start]:02x}; "
            "convert the file to UTF-8"
        ) from error


def check_exists(path: Path) -> None:
    """Raise a FileError if there is no such file."""
    if not path.is_file():
        raise FileError(f"no corpus {str(path)!r}; name a file that is there")


def _read_pairs(path: Path, parse: Callable[[str], Pair]) -> Iterator[Pair]:
    """The pair of each line that is not empty; a FileError names the line that `parse` refuses."""
    for number, line in numbered(path):
        if not line.strip():
            continue
        try:
            yield parse(line)
        except InputError as error:
            raise FileError(f"{path}, line {number}: {error}") from error


def _pair_from_columns(line: str) -> Pair:
    """The pair of a line with a tab between source and target."""
    columns = line.split("\t")
    if len(columns) < 2 or not columns[0].strip() or not columns[1].strip():
        raise InputError(
            f"expected a source and a target with a tab between, got {_shorten(line)}; "
            "mend or remove the line"
        )
    return Pair(columns[0].strip(), columns[1].strip())


def _pair_from_json(line: str) -> Pair:
    """The pair of a JSON object with "source" and "target"."""
    try:
        content = parse_json(line, "the line")
    except InputError as error:
        raise InputError(
            f"expected a JSON object, got {_shorten(line)} ({error}); mend the line"
        ) from error
    sides = [content.get(name) if isinstance(content, dict) else None for name in Pair._fields]
    if not all(isinstance(side, str) and side.strip() for side in sides):
        raise InputError(
            f'expected an object with the texts "source" and "target", got {_shorten(line)}'
        )
    return Pair(*(str(side).strip() for side in sides))


def _parallel_lines(first: Path, second: Path) -> Iterator[Pair]:
    """The pairs of lines with the same number in two files, which must have the same length.

    A pair is left out if one of its lines is empty.
    """
    targets = numbered(second)
    for number, source in numbered(first):
        _, target = next(targets, (0, None))
        if target is None:
            raise FileError(
                f"{second}: expected as many lines as {first}, it ends before line {number}"
            )
        if source.strip() and target.strip():
            yield Pair(source.strip(), target.strip())
    if next(targets, None) is not None:
        raise FileError(f"{first}: expected as many lines as {second}, it has fewer")


def _shorten(line: str) -> str:
    """The line in quotes, cut to 60 characters."""
    return repr(line if len(line) <= 60 else f"{line[:60]}…")
