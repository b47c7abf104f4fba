"""What the commands of tasks share: options, files of inputs, printed results."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from regard.cli import options
from regard.cli.inputs import errors_name_options
from regard.cli.output import to_json_text
from regard.documents import parse_json
from regard.errors import FileError, InputError, RegardError
from regard.terminal import make_console, print_line, print_text
from regard.text import say

if TYPE_CHECKING:
    from regard.cli.progress import LineCount
    from regard.types import Candidate, TaskResult

__all__ = [
    "BATCH",
    "TaskOptions",
    "check_picture_file",
    "needs_trace",
    "print_results",
    "read_records",
    "run_in_batches",
    "task_errors_name_options",
    "task_options",
]

Input = TypeVar("Input")

BATCH = 64  # inputs whose results are printed together
PICTURES = (".html", ".htm", ".png", ".svg", ".pdf", ".json")
_CELL_GAP = "\t"
_MOST_LABELS = 5  # of a picture that are printed; --json has all

task_options = options.apply_options(
    [
        options.file(
            "--out", "Write the picture of a single input: .html, .png, .svg, .pdf or .json."
        ),
        options.language,
        options.as_json,
        options.device,
        options.quiet,
    ]
)


@dataclass(frozen=True)
class TaskOptions:
    """The options of a command that runs a task."""

    model: str | None
    file: Path | None
    out: Path | None
    lang: str
    as_json: bool
    device: str | None
    quiet: bool


def task_errors_name_options() -> AbstractContextManager[None]:
    """Let errors about the arguments of a task name the options."""
    return errors_name_options({}, {"model=": "--model", "task=": "--task"})


def classify_text(
    text: str, model: str | None, subject: str | None, device: str | None
) -> "TaskResult":
    """The result of a shipped classifier on a text, with its trace."""
    from regard.tasks import classify
    from regard.tasks.models import TaskModels

    with task_errors_name_options():
        return classify(text, TaskModels("classify", model, device, subject=subject))


def check_picture_file(out: Path | None, count: int) -> None:
    """Refuse a file that no picture can be written to, before any work is done."""
    if out is None:
        return
    if count != 1:
        raise click.UsageError(f"--out draws one input, got {count}; give one, or --json for all")
    if out.suffix.lower() not in PICTURES:
        raise InputError(
            f"cannot write {str(out)!r}; expected a name that ends with {', '.join(PICTURES)}"
        )
    if not out.parent.is_dir():
        raise FileError(f"cannot write {out}: there is no folder {out.parent}")


def needs_trace(options: TaskOptions, count: int) -> bool:
    """True if a picture is drawn: for --out, or for a single input in the terminal."""
    return options.out is not None or (count == 1 and not options.as_json)


def read_records(file: Path, names: Sequence[str]) -> list[dict[str, str]]:
    """The objects of a .jsonl file, each with these texts; a FileError names the wrong line.

    The texts of an empty line are empty, so that there is a result for each line.
    """
    try:
        # not splitlines(), which also splits at marks that may stand in a text of JSON
        lines = file.read_bytes().decode("utf-8-sig").rstrip("\r\n").split("\n")
    except OSError as error:
        raise FileError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{file} is not UTF-8 text; save it as UTF-8") from error
    if not any(line.strip() for line in lines):
        raise InputError(f"{file} has no text; expected an object in each line")
    return [
        _record(file, number, line, names) if line.strip() else dict.fromkeys(names, "")
        for number, line in enumerate(lines, 1)
    ]


def _record(file: Path, number: int, line: str, names: Sequence[str]) -> dict[str, str]:
    """The texts of one line."""
    try:
        content = parse_json(line, "the line")
    except InputError:
        content = None
    texts = {name: content.get(name) if isinstance(content, dict) else None for name in names}
    if not all(isinstance(text, str) for text in texts.values()):
        expected = " and ".join(f'"{name}"' for name in names)
        raise FileError(
            f"{file}, line {number}: expected an object with the texts {expected}, got "
            f"{line[:60]!r}"
        )
    return {name: str(text) for name, text in texts.items()}


def run_in_batches(
    inputs: Sequence[Input],
    run: "Callable[[list[Input]], list[TaskResult]]",
    is_blank: Callable[[Input], bool],
    progress: "LineCount",
    size: int = BATCH,
) -> "Iterator[TaskResult | None]":
    """The result of each input, None for one without text, as soon as its batch is done.

    Where an input is refused, the results of those before it come first.
    """
    for start in range(0, len(inputs), size):
        batch = inputs[start : start + size]
        try:
            results = iter(run([each for each in batch if not is_blank(each)]))
        except RegardError:
            if len(inputs) == 1:
                raise
            results = _run_one_by_one(batch, run, is_blank, start)
        progress.clear()
        for each in batch:
            yield None if is_blank(each) else next(results)
        progress.show(start + len(batch))


def _run_one_by_one(
    batch: Sequence[Input],
    run: "Callable[[list[Input]], list[TaskResult]]",
    is_blank: Callable[[Input], bool],
    start: int,
) -> "Iterator[TaskResult]":
    """The results of a batch up to the input that is refused; the error has its number."""
    for number, each in enumerate(batch, start + 1):
        if not is_blank(each):
            try:
                (result,) = run([each])
            except RegardError as error:
                raise InputError(f"input {number}: {error}") from error
            yield result


def print_results(results: Iterator["TaskResult | None"], options: TaskOptions, key: str) -> None:
    """Print or draw each result as it comes; None is an input without text.

    `key` is the name of the answer in the JSON of an input without text.
    """
    for result in results:
        if options.out is not None:
            if result is None:
                raise InputError("the input is empty, and there is nothing to draw; give some text")
            _write_picture(result, options)
        if options.as_json:
            blank = {key: None, "score": None}
            print_text(to_json_text(blank if result is None else result.to_json()))
        elif options.out is not None:
            print_line(str(options.out))
        elif result is None:
            print_line("")
        elif result.evidence is not None:
            _print_picture(result, options)
        else:
            print_text(_format_line(result, options.lang))


def _format_line(result: "TaskResult", language: str) -> str:
    """The answer, its probability, the text or question, and the source in a base, in one line.

    A summary and a transcript stand alone.
    """
    if result.task in ("summarisation", "transcription"):
        return _answer(result.answer, language)
    inputs = result.inputs
    text = inputs.get("question") or inputs.get("text") or inputs.get("picture", "")
    cells = [_answer(result.answer, language), f"{result.score:.3f}", text]
    if result.passage is not None and result.source is not None:
        cells.append(result.source)
    return _CELL_GAP.join(cells)


def _answer(text: str | None, language: str) -> str:
    return say("result.no-answer", language) if text is None else text


def _write_picture(result: "TaskResult", options: TaskOptions) -> None:
    """Write the picture of a result to the file of --out; without one the answer is printed."""
    from regard.views import view

    assert options.out is not None
    if all(window.trace is None for window in result.windows):
        print_text(
            to_json_text(result.to_json())
            if options.as_json
            else _format_line(result, options.lang)
        )
        raise InputError(_no_picture(result))
    view(result, language=options.lang).save(options.out)


def _no_picture(result: "TaskResult") -> str:
    """Why a result has no picture: no attention led to it."""
    if result.answer is None:
        reason = "the base has no answer to this question"
    elif result.source is not None:
        reason = f"{result.source} was found by the terms it shares with the question"
    else:
        reason = "no model read this text"
    return (
        f"there is no picture to write, because {reason} and no attention was computed; leave out "
        "--out"
    )


def _print_picture(result: "TaskResult", options: TaskOptions) -> None:
    """Print the text with its shades, then the probabilities of all candidates."""
    from regard.views import view

    console = make_console()
    console.print(view(result, language=options.lang))
    if len(result.windows) > 1:
        number, count = result.decisive + 1, len(result.windows)
        console.print(say("tasks.windows", options.lang, number=number, count=count))
    if result.alternatives:
        console.print()
        most = _MOST_LABELS if result.task == "recognition" else None
        for line in _candidate_lines(result.candidates[:most], options.lang):
            console.print(line)


def _candidate_lines(candidates: Sequence["Candidate"], language: str) -> Iterator[Any]:
    """The candidates with their probabilities, which stand in a column of their own."""
    from rich.text import Text

    from regard.views.captions import percent

    for candidate in candidates:
        yield Text(f"{percent(candidate.score):>7}  {_answer(candidate.text, language)}")
