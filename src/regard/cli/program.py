"""The command `regard` itself: its subcommands, and how errors become exit codes."""

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class

from regard._version import __version__
from regard.cli.lazy import LazyCommand, LazyGroup
from regard.cli.output import INTERRUPTED, decode_arguments, prepare_streams, prepare_warnings
from regard.errors import RegardError
from regard.terminal import print_line, print_text
from regard.unicode import cut_text

_ERROR = 2
_LONGEST_ERROR = 4000  # characters of an error that are printed; a name in it may be longer
_SHELLS = ("bash", "zsh", "fish")

COMMANDS = {
    "look": LazyCommand("regard.cli.look", "Show what a model attends to in a text or an image."),
    "explain": LazyCommand("regard.cli.explain", "Show the three steps of attention on a text."),
    "mechanisms": LazyCommand(
        "regard.cli.mechanisms", "List the attention mechanisms, or describe one."
    ),
    "classify": LazyCommand(
        "regard.cli.classify", "Give each text a class, and show what the decision attended to."
    ),
    "answer": LazyCommand(
        "regard.cli.answer",
        "Answer questions in the words of a text, and show where the answer stands.",
    ),
    "summarise": LazyCommand(
        "regard.cli.summarise", "Summarise each text, and show what was copied from it."
    ),
    "recognise": LazyCommand(
        "regard.cli.recognise", "Give each picture a class, and show where it was seen."
    ),
    "transcribe": LazyCommand(
        "regard.cli.transcribe", "Write what is said in each sound, and when."
    ),
    "translate": LazyCommand("regard.cli.translate", "Translate texts with a model."),
    "generate": LazyCommand("regard.cli.generate", "Continue texts with a model."),
    "train": LazyCommand(
        "regard.cli.train", "Train the model of a recipe, or continue its training."
    ),
    "evaluate": LazyCommand(
        "regard.cli.evaluate", "Compute the metrics of a model on held-out DATA."
    ),
    "diagnose": LazyCommand(
        "regard.cli.diagnose", "Check a model's attention for bugs and notable patterns."
    ),
    "survey": LazyCommand(
        "regard.cli.survey", "Measure every attention head of a model over a CORPUS."
    ),
    "models": LazyCommand("regard.cli.models", "List the models on this machine, or in a folder."),
    "info": LazyCommand("regard.cli.info", "Describe a trace or a model."),
}
EXAMPLES = """\b
Examples:
  regard look "I love you"
  regard look "I love you" --out page.html
  regard explain "我 爱 中国" --query 爱
  regard mechanisms additive --lang zh

\b
Exit codes:
  0    success
  1    diagnose: a finding as severe as --fail-on; or the reader of the output closed the pipe
  2    an error: one line on stderr says what was expected, what was given and what to do
  130  interrupted by Ctrl-C"""


class Program(LazyGroup):
    """The group of all commands; an error becomes one line on stderr and an exit code."""

    def main(self, args: Sequence[str] | None = None, **settings: Any) -> NoReturn:  # type: ignore[override]
        """Run the command line and leave the process."""
        prepare_streams()
        prepare_warnings()
        settings["standalone_mode"] = False
        settings.setdefault("prog_name", "regard")  # also as python -m regard
        try:
            sys.exit(super().main(decode_arguments(args), **settings))
        except (click.Abort, KeyboardInterrupt):
            _print_error("interrupted")
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            _print_error(error.format_message(), _help_hint(error))
        except RegardError as error:
            _print_error(str(error))
        except OSError as error:
            _print_error(_describe_os_error(error))
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            _print_error("there is not enough memory; give a shorter text or a smaller model")
        sys.exit(_ERROR)


def _print_completion_script(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    """Print the script by which a shell completes our commands, and end."""
    if shell is None or context.resilient_parsing:
        return
    kind = get_completion_class(shell)
    assert kind is not None
    print_text(kind(context.command, {}, "regard", "_REGARD_COMPLETE").source())
    context.exit()


@click.group(
    "regard",
    cls=Program,
    lazy=COMMANDS,
    invoke_without_command=True,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--completion",
    type=click.Choice(_SHELLS),
    is_eager=True,
    expose_value=False,
    callback=_print_completion_script,
    help='Print the script for TAB completion; for bash: eval "$(regard --completion bash)".',
)
@click.version_option(__version__, message="regard %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """See where any model looks: build, watch, see and check attention.

    Output is English or Chinese: set --lang, or the environment variable REGARD_LANG, or LANG.
    Colours appear in terminals only; the variable NO_COLOR turns them off.
    """
    if context.invoked_subcommand is None:
        print_text(context.get_help())


def _describe_os_error(error: OSError) -> str:
    """The file and the reason of an error of the system, without its number."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"cannot use {error.filename}: {error.strerror}"


def _is_out_of_memory(error: Exception) -> bool:
    """True if an allocation failed; torch raises a RuntimeError with one of these texts then."""
    texts = ("OutOfMemoryError", "can't allocate memory", "not enough memory")
    message = f"{type(error).__name__} {error}"
    return isinstance(error, MemoryError) or any(text in message for text in texts)


def _print_error(message: str, hint: str = "") -> None:
    """Print an error to stderr as one line, with a hint after it if there is one."""
    line = cut_text(" ".join(message.split()), _LONGEST_ERROR)
    print_line(f"regard: {line.removesuffix('.')}. {hint}" if hint else f"regard: {line}", err=True)


def _help_hint(error: click.ClickException) -> str:
    """Where the command's help is, if the error comes from a command."""
    context = getattr(error, "ctx", None)
    return "" if context is None else f"Try '{context.command_path} --help'."
