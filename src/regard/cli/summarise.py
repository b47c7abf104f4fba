"""`regard summarise`: a short text about each long one."""

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

_BATCH = 16  # texts that are summarised together
_EXAMPLES = """\b
Examples:
  regard summarise "We present a parser that reads ..."
  regard summarise --file abstracts.jsonl --json > titles.jsonl
  cat article.txt | tr '\\n' ' ' | regard summarise --out summary.html
  regard summarise --file news.txt --model ./bart-large-cnn --beam 4"""


@dataclass(frozen=True)
class SummariseOptions(TaskOptions):
    """The options of `regard summarise`."""

    texts: tuple[str, ...]
    beam: int | None


@command(epilog=_EXAMPLES)
@click.argument("texts", metavar="[TEXT]...", nargs=-1)
@options.model
@options.file(
    "--file", 'Read texts from the lines of this file, or the field "text" of .jsonl; - is stdin.'
)
@options.beam
@task_options
def summarise(**arguments: Any) -> None:
    """Summarise each text, and show what was copied from it.

    Summarises each TEXT, or each line of --file or of stdin (-). The shipped model reads English
    only, and writes a line such as the title of a paper; --model takes any other that writes about
    a text (BART, T5, Pegasus): a folder or a name on the hub. A text that is longer than the model
    reads is summarised in overlapping windows.

    For one text the picture is drawn: the text, shaded by how much the summary attended to each
    word, with the words underlined that were copied. For several each line has the summary; an
    empty line stays empty. --json prints one object per text and line.
    """
    _summarise_all(SummariseOptions(**arguments))


def _summarise_all(options: SummariseOptions) -> None:
    """Summarise all texts, and print or draw the result of each."""
    from regard.tasks.models import TaskModels

    texts = _read_inputs(options.texts, options.file)
    check_picture_file(options.out, len(texts))
    with task_errors_name_options():
        models = TaskModels("summarise", options.model, options.device)
        trace = needs_trace(options, len(texts))
        results = _summarise_in_batches(texts, models, options, trace=trace)
        print_results(results, options, "summary")


def _read_inputs(texts: tuple[str, ...], file: Path | None) -> list[str]:
    """The texts of the arguments, of a file of lines or objects, or of stdin."""
    if file is not None and file.suffix == ".jsonl" and not texts:
        return [record["text"] for record in read_records(file, ["text"])]
    return read_texts(texts, file)


def _summarise_in_batches(
    texts: list[str], models: "TaskModels", options: SummariseOptions, *, trace: bool
) -> "Iterator[TaskResult | None]":
    """The result of each text, None for one that is empty, as soon as its batch is done."""
    from regard.cli.progress import LineCount
    from regard.tasks import summarise

    settings: dict[str, Any] = {} if options.beam is None else {"num_beams": options.beam}
    progress = LineCount(len(texts), options.lang, options.quiet)

    def run(batch: list[str]) -> "list[TaskResult]":
        return summarise(batch, models, trace=trace, **settings)

    return run_in_batches(texts, run, lambda text: not text.strip(), progress, _BATCH)
