"""Reading texts with their summaries, from .jsonl files, which may be gzipped."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.documents import parse_json
from regard.errors import FileError, InputError
from regard.training.corpora import check_exists, data_suffix, numbered

__all__ = ["SummarisedText", "SummaryFiles", "has_summaries"]


class SummarisedText(NamedTuple):
    """A text and a summary of it."""

    text: str
    summary: str


@dataclass(frozen=True)
class SummaryFiles:
    """The texts of some files with their summaries, read anew in each iteration.

    Each line is an object with "text" and "summary".
    """

    paths: tuple[str | Path, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise InputError("expected at least one file of texts with summaries, got none")
        for path in self.paths:
            check_exists(Path(path))

    def __iter__(self) -> Iterator[SummarisedText]:
        for name in self.paths:
            for number, line in numbered(Path(name)):
                if not line.strip():
                    continue
                try:
                    yield _parse(line)
                except InputError as error:
                    raise FileError(f"{name}, line {number}: {error}") from error


def has_summaries(path: Path) -> bool:
    """True for a .jsonl file whose first object has "text" and "summary"."""
    check_exists(path)
    if data_suffix(path) != ".jsonl":
        return False
    first = next((line for _, line in numbered(path) if line.strip()), "")
    try:
        _parse(first)
    except InputError:
        return False
    return True


def _parse(line: str) -> SummarisedText:
    """The text and summary of a JSON object."""
    try:
        content = parse_json(line, "the line")
    except InputError:
        content = None
    sides = [
        content.get(name) if isinstance(content, dict) else None for name in SummarisedText._fields
    ]
    if not all(isinstance(side, str) and side.strip() for side in sides):
        raise InputError(
            f'expected an object with the texts "text" and "summary", got {line[:60]!r}; mend or '
            "remove the line"
        )
    return SummarisedText(*(str(side).strip() for side in sides))
