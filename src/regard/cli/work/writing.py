"""What the commands that write share: model, settings, answers and progress."""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Literal, NamedTuple

import click

from regard.cli.language import say
from regard.cli.work.patience import PATIENCE
from regard.errors import InputError
from regard.loading import LoadedModel, load
from regard.models import shipped_models

_PAUSE = 0.5  # seconds between two of its lines
_NAMES = {
    "beam": "num_beams",
    "best": "num_return_sequences",
    "sample": "do_sample",
    "stop": "stop_strings",
}


_OPTIONS = {
    "num_return_sequences": "--best",
    "num_beams": "--beam",
    "do_sample": "--sample",
    "stop_strings": "--stop",
    "max_length": "--max-length",
    "top_k": "--top-k",
    "top_p": "--top-p",
    "min_p": "--min-p",
    "repetition_penalty": "--repetition-penalty",
    "temperature": "--temperature",
}
_IN_PYTHON = {
    'with precision="float"': "without --int8",
    'precision="int8"': "--int8",
    'device="cpu"': "--device cpu",
}
_SETTING = re.compile(rf"\b({'|'.join(_OPTIONS)})(?:=(True|[\w.]+))?")


@contextmanager
def in_options() -> Iterator[None]:
    """Say what is wrong with a setting by the option that it comes from."""
    try:
        yield
    except InputError as error:
        said = _SETTING.sub(_option, str(error))
        for python, option in _IN_PYTHON.items():
            said = said.replace(python, option)
        raise InputError(said) from error


def _option(found: re.Match[str]) -> str:
    value = "" if found[2] in (None, "True") else f" {found[2]}"
    return _OPTIONS[found[1]] + value


class Answer(NamedTuple):
    """A text that the model wrote, and its score."""

    text: str
    score: float


def printed(found: Sequence[Answer]) -> str:
    """The text; of several, a line each with its score before it."""
    if len(found) < 2:
        return "".join(answer.text for answer in found)
    return "\n".join(f"{answer.score:.4f}\t{answer.text}" for answer in found)


def settings_of(asked: dict[str, Any]) -> dict[str, Any]:
    """The settings of `generate` that the options ask for."""
    return {
        _NAMES.get(name, name): value
        for name, value in asked.items()
        if value is not None and value is not False and value != ()
    }


def usual(name: str | None, command: str, shipped_for_it: str) -> str:
    """The model that is asked for, or the shipped one of the command."""
    if name is not None:
        return name
    if shipped_for_it not in shipped_models():
        raise click.UsageError(
            f"{shipped_for_it} is not shipped with this version; name a model: regard {command} "
            "--model PATH|NAME"
        )
    return shipped_for_it


def load_writer(
    name: str, *, translates: bool, int8: bool, device: str | None, quiet: bool = True
) -> LoadedModel:
    """Load a model of the kind that the command needs: one that translates, or that continues."""
    precision: Literal["int8"] | None = "int8" if int8 else None
    command = "translate" if translates else "generate"
    loaded = native_writer(
        load(name, device=device, precision=precision, progress=not quiet), command
    )
    if loaded.translates is not translates:
        does, other = (
            ("translates", "translate") if loaded.translates else ("continues texts", "generate")
        )
        raise InputError(f"{name} {does}; use regard {other}")
    loaded.tokenizer  # noqa: B018  refuses a model without one
    return loaded


def native_writer(loaded: LoadedModel, command: str) -> LoadedModel:
    """The model itself; refused unless it writes texts by regard's own decoding."""
    if not (loaded.translates or loaded.continues) or loaded.sees:
        raise InputError(
            f"{loaded.name} writes no texts, so that there is nothing to score"
            if command == "evaluate"
            else f"{loaded.name} writes no texts; regard look shows where it looks"
        )
    if not loaded.native:
        raise InputError(
            f"regard {command} takes architectures that regard's own classes load; {loaded.name} "
            f"is a {type(loaded.model).__name__} of transformers, which regard look, diagnose and "
            "survey take"
        )
    return loaded


@dataclass
class Progress:
    """Says on stderr how many of the lines are done, once it takes more than a moment."""

    count: int
    language: str
    quiet: bool = False
    _start: float = field(default_factory=lambda: monotonic())
    _said: float = 0.0

    def show(self, done: int) -> None:
        """Say it, unless it was said just before."""
        spent = monotonic() - self._start
        soon = spent < PATIENCE or spent - self._said < _PAUSE
        if self.quiet or soon or done in (0, self.count):
            return
        self._said, left = spent, spent / done * (self.count - done)
        line = say("lines done", self.language, done=done, count=self.count, left=f"{left:.0f}")
        terminal = sys.stderr.isatty()
        click.echo(f"\r{line}\x1b[K" if terminal else line, err=True, nl=not terminal)

    def clear(self) -> None:
        """Take the last line back, where the terminal can."""
        if self._said and sys.stderr.isatty():
            click.echo("\r\x1b[K", err=True, nl=False)
