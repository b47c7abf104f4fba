"""What a command line names: texts, a model to run on them, and the options in error messages."""

import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from regard.errors import FileError, InputError, RegardError, first_line

if TYPE_CHECKING:
    from regard.loading import LoadedModel

__all__ = [
    "capture_inputs",
    "check_is_text",
    "check_names_no_missing_file",
    "default_model",
    "errors_name_options",
    "is_file",
    "read_text",
    "read_texts",
]

STDIN = "-"


def read_text(argument: str | None, file: Path | None = None) -> str:
    """One text: the argument, else the whole file, else stdin; - is stdin in both places."""
    if argument is not None and file is not None:
        raise click.UsageError("give a text or --file, not both")
    if argument is not None and argument != STDIN:
        return _check_text(argument)
    text, name = _read(file, stdin_was_named=argument == STDIN)
    return _check_not_empty(text, name).rstrip("\n")


def read_texts(arguments: Sequence[str], file: Path | None) -> list[str]:
    """Several texts: the arguments, else the lines of the file, else those of stdin."""
    if arguments and file is not None:
        raise click.UsageError("give texts or --file, not both")
    if arguments and tuple(arguments) != (STDIN,):
        return [check_is_text(_check_text(text)) for text in arguments]
    text, name = _read(file, stdin_was_named=bool(arguments))
    # not splitlines(), which also splits at marks of other scripts that end no line of a file
    return _check_not_empty(text, name).removesuffix("\n").split("\n")


def _read(file: Path | None, *, stdin_was_named: bool) -> tuple[str, str]:
    """What the file or stdin holds, and what a message calls it."""
    # without arguments in a terminal, waiting for input would look as if the program hung
    # sys.stdin is None in a process that was started without one
    if file is None and not stdin_was_named and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("no text; give some, or --file FILE, or - and lines on stdin")
    name = "stdin" if file in (None, Path(STDIN)) else str(file)
    if name == "stdin" and sys.stdin is None:
        raise FileError("stdin is closed; give a text, or --file FILE")
    contents = sys.stdin.buffer.read() if name == "stdin" else _read_bytes(name)
    try:
        return contents.decode("utf-8-sig").replace("\r\n", "\n"), name
    except UnicodeDecodeError as error:
        raise FileError(f"{name} is not UTF-8 text; save it as UTF-8") from error


def _read_bytes(name: str) -> bytes:
    """The bytes of a file; a file that cannot be read is a FileError."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise FileError(f"cannot read {name}: {error.strerror}") from error


def _check_not_empty(text: str, name: str) -> str:
    """The text of a file or of stdin, refused if it is only white space."""
    if not text.strip():
        raise InputError(f'{name} has no text; give some, such as "I love you"')
    return text


def _check_text(text: str) -> str:
    """The text of an argument, refused if it is only white space or not UTF-8."""
    if not text.strip():
        raise InputError('a text is empty; give some, such as "I love you"')
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no characters
        raise InputError("a text is not UTF-8; set the terminal to UTF-8") from None
    return text


def check_is_text(text: str) -> str:
    """The text of an argument; one that was surely meant as a file or a model is refused."""
    from regard.models import shipped_models

    if is_file(text) and Path(text).suffix:
        raise InputError(f"{text} is a file; to read it: --file {text}")
    # "stories" is the name of a model and a word that one may want to translate
    is_model_name = text in shipped_models() and not text.isalpha()
    if is_model_name or is_file(f"{text}/config.json"):
        context = click.get_current_context(silent=True)
        parameters = [] if context is None else context.command.params
        takes_model = any("--model" in parameter.opts for parameter in parameters)
        option = f" and --model {text}" if takes_model else ""
        raise InputError(f"{text} is a model and no text; give a text{option}")
    return text


def check_names_no_missing_file(text: str, suffixes: Sequence[str]) -> None:
    """Refuse a text of one word that ends as the name of a file does, where there is none."""
    if text.lower().endswith(tuple(suffixes)) and not any(map(str.isspace, text)):
        raise FileError(f"there is no file {text}; name one that is there, or give a text")


def is_file(text: str) -> bool:
    """True if a text is the path of a file."""
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # longer than a path may be, as texts are, or with a NUL
        return False


def default_model(name: str | None, command: str, shipped_model: str) -> str:
    """The model that was named, or else the shipped one that the command uses."""
    from regard.models import shipped_models

    if name is not None:
        return name
    if shipped_model not in shipped_models():
        raise click.UsageError(
            f"{shipped_model} is not shipped with this version; name a model: regard {command} "
            "--model PATH|NAME"
        )
    return shipped_model


@contextmanager
def errors_name_options(options: Mapping[str, str], phrases: Mapping[str, str]) -> Iterator[None]:
    """Rewrite an InputError that names arguments of Python so that it names options.

    With `{"num_beams": "--beam"}` the message "num_beams=3 is ..." becomes "--beam 3 is ...".
    `phrases` are replaced first, as they stand.
    """
    try:
        yield
    except InputError as error:
        message = str(error)
        for phrase, replacement in phrases.items():
            message = message.replace(phrase, replacement)
        for argument, option in options.items():
            message = re.sub(
                rf"\b{argument}(?:=(True|[\w.]+))?", partial(_option_with_value, option), message
            )
        raise InputError(message) from error


def _option_with_value(option: str, argument: re.Match[str]) -> str:
    """The option with the argument's value, which a flag does not have."""
    return option if argument[1] in (None, "True") else f"{option} {argument[1]}"


def capture_inputs(loaded: "LoadedModel", inputs: Any, generate: Any, name: str) -> Any:
    """`regard.capture`; an error inside a model of transformers names the model and the inputs.

    An error inside one of regard's own models is a mistake of ours, and keeps its traceback.
    """
    from regard.tracing import capture

    try:
        with warnings.catch_warnings():
            # `look` has refused such a text already, and `diagnose` has a finding about it
            warnings.filterwarnings("ignore", message=".* tokens, its context, got ")
            return capture(loaded.model, loaded.processor, inputs, generate=generate)
    except RegardError:
        raise
    except Exception as error:
        if loaded.native:
            raise
        raise InputError(f"{loaded.name} cannot run on {name} ({first_line(error)})") from error
