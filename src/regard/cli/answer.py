"""`regard answer`: answers to questions, found in a text."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from regard.cli import options
from regard.cli.answer_base import answer_from_base
from regard.cli.inputs import (
    STDIN,
    check_names_no_missing_file,
    is_file,
    read_text,
    read_texts,
)
from regard.cli.lazy import command
from regard.cli.task_results import (
    TaskOptions,
    check_picture_file,
    needs_trace,
    print_results,
    read_records,
    run_in_batches,
    task_errors_name_options,
    task_options,
)

if TYPE_CHECKING:
    from regard.tasks.models import TaskModels
    from regard.types import TaskResult

_TEXT_SUFFIXES = (".txt", ".md", ".text", ".rst", ".html")
_EXAMPLES = """\b
Examples:
  regard answer "Who wrote it?" --context "Ada wrote it."
  regard answer "Who is Ahab?" --context moby_dick.txt --out ahab.html
  regard answer --file questions.jsonl --model ./minilm-squad --json > answers.jsonl
  regard answer "How do I reset my password?" --base faq.tsv"""


@dataclass(frozen=True)
class AnswerOptions(TaskOptions):
    """The options of `regard answer`."""

    questions: tuple[str, ...]
    context: str | None
    base: Path | None
    must_answer: bool


class Question(NamedTuple):
    """A question, the text to look in, and the file that the text is from."""

    text: str
    context: str
    source: str | None = None


@command(epilog=_EXAMPLES)
@click.argument("questions", metavar="[QUESTION]...", nargs=-1)
@click.option(
    "--context",
    metavar="TEXT|FILE",
    help="The text to find the answers in, or the path of a file with it, in UTF-8; - is stdin.",
)
@click.option(
    "--base",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The knowledge base to find the answers in: a folder of .txt and .md files, or a .tsv or "
    ".jsonl file of questions and answers or of triples.",
)
@options.named_model
@options.file(
    "--file",
    "Read questions from the lines of this file, or from .jsonl with the fields "
    '"question" and "context".',
)
@click.option(
    "--must-answer",
    is_flag=True,
    help="Give the best span also where the model finds that the text has no answer.",
)
@task_options
def answer(**arguments: Any) -> None:
    """Answer questions in the words of a text, and show where the answer stands.

    Answers each QUESTION from the text of --context with a question answering model: the shipped
    one, which reads English, or a folder or hub name of Hugging Face. A long text is read in
    overlapping windows.

    With --base the answer comes from a knowledge base, and so does its source. A .tsv file has
    three columns (subject, relation, object), two (question, answer) or one (answer); an object in
    .jsonl has the keys "subject", "relation", "object" or "question", "answer" or "text". Any of
    them may be gzipped. An index is kept beside the base, in a folder that ends with .regard-index,
    and made again when a file changes.

    For one question the picture is drawn: question and text, shaded by what the words of the answer
    attended to, the answer underlined. For several each line has the answer, its probability and
    the question. --json prints one object per question and line, with the characters from "start"
    to "end" that the answer has in the text.
    """
    _answer_all(AnswerOptions(**arguments))


def _answer_all(options: AnswerOptions) -> None:
    """Answer all questions, and print or draw the result of each."""
    from regard.tasks.models import TaskModels

    if options.base is not None:
        answer_from_base(options)
        return
    questions = _read_questions(options)
    check_picture_file(options.out, len(questions))
    with task_errors_name_options():
        models = TaskModels("answer", options.model, options.device)
        trace = needs_trace(options, len(questions))
        results = _answer_in_batches(questions, models, options, trace=trace)
        print_results(results, options, "answer")


def _read_questions(options: AnswerOptions) -> list[Question]:
    """The questions with their contexts, from arguments and files."""
    file = options.file
    if file is not None and file.suffix == ".jsonl" and not options.questions:
        if options.context is None:
            records = read_records(file, ["question", "context"])
            return [Question(each["question"], each["context"]) for each in records]
        questions = [each["question"] for each in read_records(file, ["question"])]
    elif options.context is None:
        raise click.UsageError(
            "no text to find the answer in; give --context TEXT or a file of it, or --base PATH"
        )
    elif options.context == STDIN and not options.questions and file is None:
        raise click.UsageError("--context - reads the text from stdin; give a QUESTION or --file")
    else:
        questions = read_texts(options.questions, file)
    context, source = _read_context(options.context)
    return [Question(question, context, source) for question in questions]


def _read_context(context: str) -> tuple[str, str | None]:
    """The text to look in, and the name of its file if it is one."""
    if is_file(context):
        return read_text(None, Path(context)), context
    check_names_no_missing_file(context, _TEXT_SUFFIXES)
    return read_text(context), None


def _answer_in_batches(
    questions: list[Question], models: "TaskModels", options: AnswerOptions, *, trace: bool
) -> "Iterator[TaskResult | None]":
    """The result of each question, None for one that is empty, as soon as its batch is done."""
    from regard.cli.progress import LineCount
    from regard.tasks import answer

    def run(batch: list[Question]) -> "list[TaskResult]":
        texts, contexts = [each.text for each in batch], [each.context for each in batch]
        no_answer = not options.must_answer
        results = answer(texts, contexts, models, no_answer=no_answer, trace=trace)
        pairs = zip(results, batch, strict=True)
        return [replace(result, source=question.source) for result, question in pairs]

    progress = LineCount(len(questions), options.lang, options.quiet)
    return run_in_batches(questions, run, lambda each: not each.text.strip(), progress)
