"""The command `regard` itself: its subcommands, and how an error leaves the process."""

import sys
from io import TextIOWrapper
from typing import Any, NoReturn

import click

from regard._version import __version__
from regard.cli.lazy import Lazy, LazyGroup
from regard.errors import RegardError

_FAILED = 2
_INTERRUPTED = 130

COMMANDS = {
    "look": Lazy("regard.cli.look", "Show where a model looks while it reads TEXT and writes."),
    "explain": Lazy("regard.cli.explain", "Show the three steps of attention on a text."),
    "mechanisms": Lazy("regard.cli.mechanisms", "List the mechanisms, or tell all about one."),
    "translate": Lazy("regard.cli.translate", "Translate texts with a model."),
    "generate": Lazy("regard.cli.generate", "Continue texts with a model."),
    "train": Lazy("regard.cli.train", "Train the model of a recipe, or go on with it."),
    "evaluate": Lazy("regard.cli.evaluate", "Score a model on held-out DATA."),
}
EXAMPLES = """\b
Examples:
  regard look "I love you"
  regard mechanisms
  regard mechanisms additive --lang zh
  regard explain "我 爱 中国" --query 爱"""


class Program(LazyGroup):
    """The group whose errors are one line on stderr and an exit code, never a traceback."""

    def main(self, *args: Any, **settings: Any) -> NoReturn:
        """Run the command line and leave the process."""
        _show_what_cannot_be_encoded()
        settings["standalone_mode"] = False
        try:
            sys.exit(super().main(*args, **settings))
        except (click.Abort, KeyboardInterrupt):
            _complain("interrupted")
            sys.exit(_INTERRUPTED)
        except click.ClickException as error:
            _complain(error.format_message(), _hint(error))
            sys.exit(error.exit_code)
        except RegardError as error:
            _complain(str(error))
            sys.exit(_FAILED)


@click.group(
    "regard",
    cls=Program,
    lazy=COMMANDS,
    invoke_without_command=True,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="regard %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """See where any model looks: build, watch, see and check attention.

    Tables come in English or Chinese: --lang, or the environment variable REGARD_LANG, or LANG.
    Errors end with exit code 2.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _show_what_cannot_be_encoded() -> None:
    """A terminal without our characters shows question marks instead of ending the program."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _complain(message: str, hint: str = "") -> None:
    click.echo(f"regard: {' '.join(message.split())}{hint}", err=True)


def _hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return "" if context is None else f"\nTry '{context.command_path} --help'."
