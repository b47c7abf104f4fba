"""`regard answer --base`: answers from a knowledge base, with their sources."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from regard.cli.inputs import read_texts
from regard.cli.task_results import (
    check_picture_file,
    needs_trace,
    print_results,
    read_records,
    task_errors_name_options,
)
from regard.terminal import print_line, print_text
from regard.text import say

if TYPE_CHECKING:
    from regard.tasks.knowledge.base import KnowledgeBase
    from regard.types import TaskResult

__all__ = ["answer_from_base"]


def answer_from_base(options: Any) -> None:
    """Answer all questions from the base, and print or draw the result of each."""
    if options.context is not None:
        raise click.UsageError("--context and --base exclude each other; give one of them")
    questions = _read_questions(options)
    check_picture_file(options.out, len(questions))
    with task_errors_name_options():
        base = _open(options)
        print_results(_answers(questions, base, options), options, "answer")


def _read_questions(options: Any) -> list[str]:
    """The questions from arguments and files."""
    file = options.file
    if file is not None and file.suffix == ".jsonl" and not options.questions:
        return [each["question"] for each in read_records(file, ["question"])]
    return read_texts(options.questions, file)


def _open(options: Any) -> "KnowledgeBase":
    """The base with its index; what was recognised is said on stderr."""
    from regard.cli.progress import progress_bar
    from regard.tasks.knowledge.base import KnowledgeBase
    from regard.tasks.knowledge.entries import read_base

    base = read_base(options.base)
    if not options.quiet:
        print_line(
            say(f"base.{base.kind}", options.lang, name=base.path.name, count=len(base.entries)),
            err=True,
        )
    with progress_bar(len(base.entries), quiet=options.quiet) as bar:
        return KnowledgeBase(base, bar.show)


def _answers(
    questions: list[str], base: "KnowledgeBase", options: Any
) -> Iterator["TaskResult | None"]:
    """The result of each question, None for one that is empty."""
    from regard.cli.progress import LineCount
    from regard.tasks.asking import BaseQuestions

    trace = needs_trace(options, len(questions))
    prints_source = trace and options.out is None and not options.as_json
    asked = BaseQuestions(
        base, options.model, options.device, no_answer=not options.must_answer, trace=trace
    )
    progress = LineCount(len(questions), options.lang, options.quiet)
    for number, question in enumerate(questions, 1):
        result = asked.answer(question) if question.strip() else None
        progress.clear()
        yield result
        if result is not None and prints_source:
            _print_source(result, options.lang)
        progress.show(number)


def _print_source(result: "TaskResult", language: str) -> None:
    """Where the answer stands, or what comes nearest to one, and the text of that entry."""
    if result.source is not None:
        key = "base.nearest" if result.answer is None else "base.source"
        print_line(say(key, language, source=result.source))
        print_text(str(result.passage))
