"""`regard classify`: the class of texts, such as their sentiment or topic."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.cli import options
from regard.cli.inputs import read_texts
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

_EXAMPLES = """\b
Examples:
  regard classify "I love this film."
  regard classify "Shares of oil firms fell on Friday." --task topic --out topic.html
  regard classify --file reviews.txt --model ./distilbert-sst2
  cat reviews.txt | regard classify --model ./distilbert-sst2 --json > labels.jsonl"""


@dataclass(frozen=True)
class ClassifyOptions(TaskOptions):
    """The options of `regard classify`."""

    texts: tuple[str, ...]
    task: str | None


@command(epilog=_EXAMPLES)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@options.model
@options.subject
@options.file(
    "--file", 'Read texts from the lines of this file, or the field "text" of .jsonl; - is stdin.'
)
@task_options
def classify(**arguments: Any) -> None:
    """Give each text a class, and show what the decision attended to.

    Classifies each TEXT, or each line of --file or of stdin (-): its sentiment, or with --task
    topic the topic of news. The shipped model for the language of the text is taken; --model names
    another sequence classification model, a folder or hub name of Hugging Face. A long text is read
    in overlapping windows.

    For one text the picture is drawn: its words, shaded by what the class depends on; the title
    says how that was computed. For several each line has the label, its probability and the text;
    an empty line stays empty. --json prints one object per text and line, with the probability of
    each label.
    """
    _classify_all(ClassifyOptions(**arguments))


def _classify_all(options: ClassifyOptions) -> None:
    """Classify all texts, and print or draw the result of each."""
    from regard.tasks.models import TaskModels

    texts = _read_inputs(options.texts, options.file)
    check_picture_file(options.out, len(texts))
    with task_errors_name_options():
        models = TaskModels("classify", options.model, options.device, subject=options.task)
        trace = needs_trace(options, len(texts))
        print_results(_classify_in_batches(texts, models, options, trace=trace), options, "label")


def _read_inputs(texts: tuple[str, ...], file: Path | None) -> list[str]:
    """The texts of the arguments, of a file of lines or objects, or of stdin."""
    if file is not None and file.suffix == ".jsonl" and not texts:
        return [record["text"] for record in read_records(file, ["text"])]
    return read_texts(texts, file)


def _classify_in_batches(
    texts: list[str], models: "TaskModels", options: ClassifyOptions, *, trace: bool
) -> "Iterator[TaskResult | None]":
    """The result of each text, None for one that is empty, as soon as its batch is done."""
    from regard.cli.progress import LineCount
    from regard.tasks import classify

    def run(batch: list[str]) -> "list[TaskResult]":
        return classify(batch, models, trace=trace)

    progress = LineCount(len(texts), options.lang, options.quiet)
    return run_in_batches(texts, run, lambda text: not text.strip(), progress)
