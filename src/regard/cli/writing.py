"""What the commands that write share: their texts, their model, their settings, their progress."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import click

from regard.cli.language import say
from regard.errors import FileError, InputError
from regard.models import from_pretrained, shipped

_PATIENCE = 2.0  # seconds before progress is shown
_PAUSE = 0.5  # seconds between two of its lines


_USUAL = {"translate": "en-zh-transformer", "generate": "stories"}


def _named(context: click.Context, _: click.Parameter, name: str | None) -> str:
    """The model that is asked for, or the shipped one of the command."""
    if name is not None:
        return name
    usual = _USUAL.get(context.info_name or "", "")
    if usual not in shipped():
        raise click.UsageError(
            f"{usual} is not shipped with this version; name a model with --model, a folder or a "
            "hub name"
        )
    return usual


_OPTIONS = (
    click.option(
        "--model",
        metavar="PATH|NAME",
        callback=_named,
        help="A shipped name, a folder, or a name on the hub. [a shipped one]",
    ),
    click.option(
        "--file",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Take the lines of this file, UTF-8; - is stdin.",
    ),
    click.option(
        "--int8", is_flag=True, help="Keep large matrices in eight bits: lighter, faster."
    ),
    click.option("--beam", type=click.IntRange(1), help="Hypotheses side by side. [model's own]"),
    click.option("--best", type=click.IntRange(1), help="Print so many for each text. [1]"),
    click.option("--max-length", type=click.IntRange(1), help="Tokens at most. [model's own]"),
    click.option("--sample", is_flag=True, help="Draw tokens instead of taking the likeliest."),
    click.option(
        "--temperature", type=float, help="Below 1 bolder, above 1 wilder; with --sample."
    ),
    click.option("--top-k", type=click.IntRange(0), help="Draw from the k likeliest. [50]"),
    click.option("--top-p", type=float, help="Draw from the fewest that hold this mass."),
    click.option(
        "--min-p", type=float, help="Draw from those so many times as likely as the best."
    ),
    click.option("--repetition-penalty", type=float, help="Above 1, old tokens lose."),
    click.option("--seed", type=click.IntRange(0, (1 << 32) - 1), help="Draw the same again."),
)
_NAMES = {
    "beam": "num_beams",
    "best": "num_return_sequences",
    "sample": "do_sample",
    "stop": "stop_strings",
}
_CONTINUES = ("continues texts", "generate")


class Answer(NamedTuple):
    """A text that the model wrote, and its score."""

    text: str
    score: float


def printed(found: Sequence[Answer]) -> str:
    """The text; of several, a line each with its score before it."""
    if len(found) < 2:
        return "".join(answer.text for answer in found)
    return "\n".join(f"{answer.score:.4f}\t{answer.text}" for answer in found)


def writing(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that writes, in the order of its help."""
    return reduce(lambda made, option: option(made), reversed(_OPTIONS), command)


def settings_of(asked: dict[str, Any]) -> dict[str, Any]:
    """The settings of `generate` that the options ask for."""
    return {
        _NAMES.get(name, name): value
        for name, value in asked.items()
        if value is not None and value is not False and value != ()
    }


def load(name: str, *, reads_source: bool, light: bool = False) -> Any:
    """The model of this name, if it is of the kind that the command needs; light, in eight bits."""
    model = from_pretrained(name, precision="int8" if light else "float")
    if model.reads_source is not reads_source:
        does, command = ("translates", "translate") if model.reads_source else _CONTINUES
        raise InputError(f"{name} {does}; use regard {command}")
    if model.tokenizer is None:
        raise InputError(f"{name} has no tokenizer: a folder with one holds tokenizer.json")
    return model


def texts_of(given: Sequence[str], file: Path | None) -> list[str]:
    """The texts of the arguments, or the lines of the file, or those of stdin."""
    if given and file is not None:
        raise click.UsageError("give texts or --file, not both")
    if given:
        if not all(text.strip() for text in given):
            raise InputError("one of the texts is empty; leave it out")
        return list(given)
    if file is None and sys.stdin.isatty():
        raise click.UsageError("no text; give some, or --file FILE, or lines on stdin")
    name = "stdin" if file in (None, Path("-")) else str(file)
    lines = _lines(sys.stdin.buffer.read() if name == "stdin" else _contents(name), name)
    if not any(line.strip() for line in lines):
        raise InputError(f"{name} has no text")
    return lines


def _contents(name: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {name}: {error.strerror}") from error


def _lines(contents: bytes, name: str) -> list[str]:
    try:
        # only what ends a line in a file does: other scripts have marks of their own
        return contents.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise FileError(f"{name} is not UTF-8 text; save it as UTF-8") from error


@dataclass
class Progress:
    """Says on stderr how many of the lines are done, once it takes more than a moment."""

    count: int
    language: str
    _start: float = field(default_factory=lambda: monotonic())
    _said: float = 0.0

    def show(self, done: int) -> None:
        """Say it, unless it was said just before."""
        spent = monotonic() - self._start
        if spent < _PATIENCE or spent - self._said < _PAUSE or done in (0, self.count):
            return
        self._said, left = spent, spent / done * (self.count - done)
        line = say("lines done", self.language, done=done, count=self.count, left=f"{left:.0f}")
        terminal = sys.stderr.isatty()
        click.echo(f"\r{line}\x1b[K" if terminal else line, err=True, nl=not terminal)

    def clear(self) -> None:
        """Take the last line back, where the terminal can."""
        if self._said and sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)
