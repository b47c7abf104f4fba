"""Reading questions with the entries that answer them and some that do not."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.documents import check_value, parse_json
from regard.errors import FileError, InputError
from regard.training.corpora import check_exists, data_suffix, numbered

__all__ = ["Match", "MatchFiles"]


class Match(NamedTuple):
    """A question, the entries that answer it, and entries that do not."""

    question: str
    right: tuple[str, ...]
    wrong: tuple[str, ...] = ()


@dataclass(frozen=True)
class MatchFiles:
    """The questions of some files, read anew in each iteration.

    In .tsv the question is the first column, an entry that answers it the second, and further
    columns are entries that do not. An object in .jsonl has "question", "right" (a text or a list
    of them) and, if there are any, "wrong". Empty lines are skipped.
    """

    paths: tuple[str | Path, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise InputError("expected at least one file of questions and entries, got none")
        for path in self.paths:
            check_exists(Path(path))

    def __iter__(self) -> Iterator[Match]:
        for name in self.paths:
            path = Path(name)
            parse = _from_json if data_suffix(path) == ".jsonl" else _from_columns
            for number, line in numbered(path):
                if not line.strip():
                    continue
                try:
                    yield parse(line)
                except InputError as error:
                    raise FileError(f"{path}, line {number}: {error}") from error


def _from_columns(line: str) -> Match:
    """The question and the entries of a line with tabs between them."""
    question, *entries = (column.strip() for column in line.split("\t"))
    if not question or not entries or not entries[0]:
        raise InputError(
            f"expected a question and an entry with a tab between, got {line[:60]!r}; mend or "
            "remove the line"
        )
    return Match(question, (entries[0],), tuple(entry for entry in entries[1:] if entry))


def _from_json(line: str) -> Match:
    """The question and the entries of a JSON object."""
    content = parse_json(line, "the line")
    check_value("a match", "the line", content, dict[str, Any])
    check_value("a match", "question", content.get("question"), str)
    right, wrong = content.get("right"), content.get("wrong", [])
    right = [right] if isinstance(right, str) else right
    check_value("a match", "right", right, list[str])
    check_value("a match", "wrong", wrong, list[str])
    question, right = content["question"].strip(), [each for each in right if each.strip()]
    if not question or not right:
        raise InputError(f'expected texts in "question" and "right", got {line[:60]!r}')
    return Match(question, tuple(right), tuple(each for each in wrong if each.strip()))
