"""A group of commands whose modules are imported only when one of them runs.

`regard --help` and shell completion list the commands from `LazyCommand` entries alone. A command's
own module imports click and nothing heavy; torch and rich are imported inside the functions that
run, so that every help page appears at once.
"""

import warnings
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from regard.cli.unknown_options import unknown_options_name_others
from regard.errors import UnknownNameError

__all__ = ["LazyCommand", "LazyGroup", "RegardCommand", "command"]


class LazyCommand(NamedTuple):
    """The module of a command, and its line in the group's help."""

    module: str
    help: str


class RegardCommand(click.Command):
    """A command whose option --quiet also silences warnings; unknown options name known ones."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line into the context."""
        with unknown_options_name_others(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with warnings.catch_warnings():
            if ctx.params.get("quiet"):
                warnings.simplefilter("ignore")
            return super().invoke(ctx)


command = partial(click.command, cls=RegardCommand)


class LazyGroup(click.Group):
    """A group that knows the name, the module and one line of help of each command."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.lazy = lazy

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options before the command's name, and keep the rest for the command."""
        with unknown_options_name_others(ctx):
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which they were given."""
        return list(self.lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in self.lazy:
            return None
        loaded: click.Command = getattr(import_module(self.lazy[cmd_name].module), cmd_name)
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; an unknown name raises with the nearest."""
        if args[0] not in self.lazy and not ctx.resilient_parsing:
            raise UnknownNameError("command", args[0], self.lazy)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help page, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands (none is imported) and options with which the shell can go on."""
        commands = [
            CompletionItem(name, help=lazy.help)
            for name, lazy in self.lazy.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)
