"""Reading a knowledge base: what kind of base some files are, and the entries in them.

    notes/                 .txt and .md files        passages of their paragraphs
    faq.jsonl, faq.tsv     questions and answers     one entry each; answers alone also do
    facts.tsv              subject, relation, object one triple each

Nothing but the number of columns and the names of the keys is looked at. A file may be gzipped.
"""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard.documents import parse_json
from regard.errors import FileError, InputError

__all__ = ["Base", "Entry", "base_files", "read_base"]

Kind = Literal["passages", "questions", "answers", "triples"]

DOCUMENTS = (".txt", ".md")
LONGEST_LINE = 1_000_000  # bytes: more is no line of text but a damaged or foreign file
MOST_BYTES = 1 << 30  # of all files of a base, decompressed
_PASSAGE = 900  # characters: what a reader of 256 tokens or more takes at once
_COLUMN_KINDS: dict[int, Kind] = {1: "answers", 2: "questions", 3: "triples"}
_KEYS: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "triples": (("subject",), ("relation", "predicate"), ("object",)),
    "questions": (("question",), ("answer", "text")),
    "answers": (("answer", "text"),),
}  # fmt: skip
_NOUNS: dict[Kind, str] = {
    "passages": "passages of texts",
    "questions": "questions with answers",
    "answers": "answers",
    "triples": "triples of subject, relation and object",
}


class Entry(NamedTuple):
    """One entry of a base: its texts, and where it stands, such as notes/todo.md:12.

    The texts are those of a triple, a question and its answer, an answer, or a passage.
    """

    texts: tuple[str, ...]
    source: str

    @property
    def passage(self) -> str:
        """The entry as one text that a person can read."""
        return " | ".join(self.texts)


@dataclass(frozen=True)
class Base:
    """The entries of a knowledge base, all of one kind, and the files that they were read from."""

    path: Path
    kind: Kind
    entries: tuple[Entry, ...]
    files: tuple[Path, ...]

    @property
    def description(self) -> str:
        """What was recognised, in a few words.

        >>> from pathlib import Path
        >>> from regard.tasks.knowledge.entries import Base, Entry
        >>> entries = (Entry(("Why?", "So."), "faq.tsv:1"),)
        >>> Base(Path("faq.tsv"), "questions", entries, ()).description
        'faq.tsv: 1 entry, questions with answers'
        """
        count = len(self.entries)
        noun = "entry" if count == 1 else "entries"
        return f"{self.path.name}: {count:,} {noun}, {_NOUNS[self.kind]}"


def base_files(path: Path) -> tuple[Path, ...]:
    """The files of a base: the file itself, or the readable texts of a folder, sorted."""
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise FileError(f"no knowledge base {str(path)!r}; name a file or a folder that is there")
    files = []
    for folder, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        files += [
            Path(folder, name)
            for name in sorted(names)
            if name.lower().endswith(DOCUMENTS) and not name.startswith(".")
        ]
    if not files:
        raise FileError(
            f"{path} has no file that can be read; a base is a folder of {' and '.join(DOCUMENTS)} "
            "files, or a .tsv or .jsonl file"
        )
    return tuple(files)


def read_base(path: Path) -> Base:
    """The entries of a base; a FileError about a line names the file and the number of the line."""
    files = base_files(path)
    if path.is_dir() or _suffix(path) in DOCUMENTS:
        root = path if path.is_dir() else path.parent
        entries = [entry for file in files for entry in _passages(file, root)]
        kind: Kind = "passages"
    elif _suffix(path) in (".tsv", ".jsonl"):
        kind, entries = _read_rows(path)
    else:
        raise FileError(
            f"{path} is of no kind that is known; a base is a folder of {' and '.join(DOCUMENTS)} "
            "files, or a .tsv or .jsonl file"
        )
    if not entries:
        raise FileError(f"{path} has no entry: its files are empty; name another base")
    return Base(path, kind, tuple(entries), files)


def _suffix(path: Path) -> str:
    """The suffix that tells the format, in lower case and without .gz."""
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix == ".gz" else suffix


def _read_rows(path: Path) -> tuple[Kind, list[Entry]]:
    """The kind of a file of rows, which the first row tells, and its entries."""
    is_json = _suffix(path) == ".jsonl"
    kind: Kind | None = None
    entries = []
    for number, line in _lines(path):
        if not line.strip():
            continue
        try:
            row = _json_row(line) if is_json else line.split("\t")
            kind = kind or (_kind_of_keys(row) if isinstance(row, dict) else _kind_of_columns(row))
            texts = _texts_of_keys(kind, row) if isinstance(row, dict) else _columns(kind, row)
        except InputError as error:
            raise FileError(f"{path}, line {number}: {error}") from error
        if texts is not None:
            entries.append(Entry(texts, f"{path.name}:{number}"))
    return kind or "answers", entries


def _kind_of_columns(row: list[str]) -> Kind:
    """The kind of a base by the number of columns of its first row."""
    kind = _COLUMN_KINDS.get(len(row))
    if kind is None:
        raise InputError(
            "expected three columns (subject, relation, object), two (question, answer) or one "
            f"(answer), got {len(row)}"
        )
    return kind


def _columns(kind: Kind, row: list[str]) -> tuple[str, ...] | None:
    """The texts of a row; None for one in which a text is empty, which answers nothing."""
    if _COLUMN_KINDS.get(len(row)) != kind:
        raise InputError(
            f"expected as many columns as above, for {_NOUNS[kind]}, got {len(row)}; mend or "
            "remove the line"
        )
    texts = tuple(column.strip() for column in row)
    return texts if all(texts) else None


def _json_row(line: str) -> dict[str, Any]:
    """The object of a line."""
    content = parse_json(line, "the line")
    if not isinstance(content, dict):
        raise InputError(f"expected an object, got {line[:60]!r}")
    return content


def _kind_of_keys(row: dict[str, Any]) -> Kind:
    """The kind of a base by the keys of its first object."""
    for kind, keys in _KEYS.items():
        if all(any(name in row for name in names) for names in keys):
            return kind
    raise InputError(
        'expected "subject", "relation" and "object", "question" and "answer", or "text", got the '
        f"keys {', '.join(map(repr, list(row)[:6]))}"
    )


def _texts_of_keys(kind: Kind, row: dict[str, Any]) -> tuple[str, ...] | None:
    """The texts of an object; None for one in which a text is empty."""
    texts = tuple(next((row[name] for name in names if name in row), None) for names in _KEYS[kind])
    if not all(isinstance(text, str) for text in texts):
        expected = " and ".join(f'"{names[0]}"' for names in _KEYS[kind])
        raise InputError(f"expected the texts {expected}, as above")
    stripped = tuple(str(text).strip() for text in texts)
    return stripped if all(stripped) else None


def _passages(file: Path, root: Path) -> Iterator[Entry]:
    """The paragraphs of a text, short ones joined and long ones cut at the ends of lines."""
    name = file.relative_to(root).as_posix()
    lines, first, size = list[str](), 0, 0
    for number, line in _lines(file):
        ends = not line.strip() or (lines and size + len(line) > _PASSAGE)
        if ends and lines and (size > _PASSAGE // 3 or line.strip()):
            yield Entry(("\n".join(lines),), f"{name}:{first}")
            lines, size = [], 0
        for start in range(0, len(line), _PASSAGE) if line.strip() else ():
            part = line[start : start + _PASSAGE]
            if lines and size + len(part) > _PASSAGE:
                yield Entry(("\n".join(lines),), f"{name}:{first}")
                lines, size = [], 0
            first = first if lines else number
            lines.append(part)
            size += len(part)
    if lines:
        yield Entry(("\n".join(lines),), f"{name}:{first}")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers from 1."""
    total = 0
    try:
        with _open(path) as file:
            number = 0
            while raw := file.readline(LONGEST_LINE + 1):
                number, total = number + 1, total + len(raw)
                if len(raw) > LONGEST_LINE or total > MOST_BYTES:
                    raise FileError(_too_long(path, number, len(raw)))
                text = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                yield number, text.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x}); save it as UTF-8, "
            "or leave it out of the base"
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileError(f"{path} is no whole gzip file ({error}); write it again") from error
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"cannot read {path}: {error.strerror}") from error


def _too_long(path: Path, number: int, size: int) -> str:
    """The sentence about a line or a file that is too long."""
    if size > LONGEST_LINE:
        return (
            f"{path}, line {number}: longer than {LONGEST_LINE:,} bytes, which is no entry of a "
            "base; mend or remove the line"
        )
    return f"{path} has more than {MOST_BYTES:,} bytes; divide it into several bases"


def _open(path: Path) -> AbstractContextManager[Any]:
    """The file, decompressed as it is read if its name ends with .gz."""
    return gzip.GzipFile(path) if path.suffix.lower() == ".gz" else path.open("rb")
