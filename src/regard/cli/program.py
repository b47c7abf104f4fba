"""The command `regard` itself: its subcommands, and how an error leaves the process."""

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class

from regard._version import __version__
from regard.cli.lazy import Lazy, LazyGroup
from regard.cli.output import prepare_streams, prepare_warnings, prepared_arguments
from regard.errors import RegardError

_FAILED = 2
_INTERRUPTED = 130
_SHELLS = ("bash", "zsh", "fish")

COMMANDS = {
    "look": Lazy("regard.cli.look", "Show where a model looks while it reads and writes."),
    "explain": Lazy("regard.cli.explain", "Show the three steps of attention on a text."),
    "mechanisms": Lazy("regard.cli.mechanisms", "List the mechanisms, or tell all about one."),
    "translate": Lazy("regard.cli.translate", "Translate texts with a model."),
    "generate": Lazy("regard.cli.generate", "Continue texts with a model."),
    "train": Lazy("regard.cli.train", "Train the model of a recipe, or go on with it."),
    "evaluate": Lazy("regard.cli.evaluate", "Score a model on held-out DATA."),
    "diagnose": Lazy(
        "regard.cli.diagnose",
        "Say what is wrong with a model's attention, and what deserves to be known of it.",
    ),
    "survey": Lazy("regard.cli.survey", "Survey every head of a model over a CORPUS."),
    "models": Lazy("regard.cli.models", "List the models that are here, or in a folder."),
    "info": Lazy("regard.cli.info", "Tell what a trace or a model is, in one glance."),
}
EXAMPLES = """\b
Examples:
  regard look "I love you"
  regard look "I love you" --out page.html
  regard explain "我 爱 中国" --query 爱
  regard mechanisms additive --lang zh

\b
Exit codes:
  0    done
  1    diagnose: a finding as serious as --fail-on says; or nobody read the output to its end
  2    an error: one line on stderr says what was expected, what came, what to do
  130  interrupted by Ctrl-C"""


class Program(LazyGroup):
    """The group whose errors are one line on stderr and an exit code, never a traceback."""

    def main(self, args: Sequence[str] | None = None, **settings: Any) -> NoReturn:  # type: ignore[override]
        """Run the command line and leave the process."""
        prepare_streams()
        prepare_warnings()
        settings["standalone_mode"] = False
        settings.setdefault("prog_name", "regard")  # also as python -m regard
        try:
            sys.exit(super().main(prepared_arguments(args), **settings))
        except (click.Abort, KeyboardInterrupt):
            _complain("interrupted")
            sys.exit(_INTERRUPTED)
        except click.ClickException as error:
            _complain(error.format_message(), _hint(error))
        except (RegardError, OSError) as error:
            _complain(str(error))
        except (MemoryError, RuntimeError) as error:
            if not _is_want_of_memory(error):
                raise
            _complain("there is not enough memory; give a shorter text or a smaller model")
        sys.exit(_FAILED)


def _completion(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    """Print the script that teaches the shell our commands, and end."""
    if shell is None or context.resilient_parsing:
        return
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.command, {}, "regard", "_REGARD_COMPLETE").source())
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
    callback=_completion,
    help='Print what completes commands by TAB; for bash: eval "$(regard --completion bash)".',
)
@click.version_option(__version__, message="regard %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """See where any model looks: build, watch, see and check attention.

    Commands speak English or Chinese: --lang, or the environment variable REGARD_LANG, or LANG.
    Colours are for terminals only, and NO_COLOR turns them off.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _is_want_of_memory(error: Exception) -> bool:
    """Whether an allocation failed; torch says so in words."""
    said = ("OutOfMemoryError", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(
        each in f"{type(error).__name__} {error}" for each in said
    )


def _complain(message: str, hint: str = "") -> None:
    line = " ".join(message.split())
    click.echo(f"regard: {line.removesuffix('.')}. {hint}" if hint else f"regard: {line}", err=True)


def _hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return "" if context is None else f"Try '{context.command_path} --help'."
