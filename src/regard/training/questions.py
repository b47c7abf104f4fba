"""Reading questions with the text that answers them, from .jsonl files, which may be gzipped."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.documents import check_value, parse_json
from regard.errors import FileError, InputError
from regard.training.corpora import check_exists, numbered

__all__ = ["Answer", "Question", "QuestionFiles"]


class Answer(NamedTuple):
    """An answer in the words of the context, and the place of its first character."""

    text: str
    start: int


class Question(NamedTuple):
    """A question, the text to look in, and all answers that count; none if there is no answer."""

    question: str
    context: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class QuestionFiles:
    """The questions of some files, read anew in each iteration.

    Each line is an object with "question", "context" and "answers", a list of objects with "text"
    and "start", the place of the first character in the context.
    """

    paths: tuple[str | Path, ...]

    def __post_init__(self) -> None:
        if not self.paths:
            raise InputError("expected at least one file of questions, got none")
        for path in self.paths:
            check_exists(Path(path))

    def __iter__(self) -> Iterator[Question]:
        for name in self.paths:
            for number, line in numbered(Path(name)):
                if not line.strip():
                    continue
                try:
                    yield _parse(line)
                except InputError as error:
                    raise FileError(f"{name}, line {number}: {error}") from error


def _parse(line: str) -> Question:
    """The question of a JSON object, with its answers checked against the context."""
    content = parse_json(line, "the line")
    check_value("a question", "the line", content, dict[str, Any])
    for name in ("question", "context"):
        check_value("a question", name, content.get(name), str)
        if not content[name].strip():
            raise InputError(f"a question expected {name} to have text, got an empty one")
    check_value("a question", "answers", content.get("answers"), list[dict[str, Any]])
    answers = tuple(_parse_answer(each, content["context"]) for each in content["answers"])
    return Question(content["question"].strip(), content["context"], answers)


def _parse_answer(record: dict[str, Any], context: str) -> Answer:
    """One answer, which must stand where it says."""
    check_value("an answer", "text", record.get("text"), str)
    check_value("an answer", "start", record.get("start"), int)
    text, start = record["text"], record["start"]
    if start < 0 or not text or context[start : start + len(text)] != text:
        raise InputError(
            f"an answer expected {text[:40]!r} at character {start} of its context, got "
            f"{context[max(0, start) : max(0, start) + 40]!r}"
        )
    return Answer(text, start)
