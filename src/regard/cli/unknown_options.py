"""An option that a command does not have: which option, or which command, was probably meant."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from regard.errors import nearest_name

__all__ = ["unknown_options_name_others"]


@contextmanager
def unknown_options_name_others(context: click.Context) -> Iterator[None]:
    """Let an error about an unknown option name the command that has it, or the nearest option."""
    try:
        yield
    except click.NoSuchOption as error:
        if context.resilient_parsing:  # the shell completes; nobody reads an error
            raise
        name = error.option_name
        message = f"No such option {name!r}; {_suggestion(name, context)}"
        raise click.NoSuchOption(name, message, ctx=error.ctx or context) from error


def _suggestion(name: str, context: click.Context) -> str:
    """What to write instead of an unknown option."""
    own, others = _option_names(context.command, context), _options_of_commands(context)
    if name in others:
        return f"it is an option of {_join(others[name])}"
    first_letters = [option for option in own if option[2:3] == name[1:2]]  # -m is --model
    near = nearest_name(name, [*own, *others]) or next(iter(first_letters), None)
    if near is None:
        return f"{context.command_path} has {', '.join(own)}"
    return f"the nearest is {near}" + ("" if near in own else f" of {_join(others[near])}")


def _option_names(command: click.Command, context: click.Context) -> list[str]:
    """The names of a command's options that begin with two dashes."""
    options = [option for option in command.get_params(context) if isinstance(option, click.Option)]
    return [name for option in options for name in option.opts if name.startswith("--")]


def _options_of_commands(context: click.Context) -> dict[str, list[str]]:
    """The commands of the program that have an option, by the option's name."""
    program = context.find_root()
    group, commands = program.command, dict[str, list[str]]()
    if not isinstance(group, click.Group):  # a command that is run on its own, as tests do
        return commands
    for command_name in group.list_commands(program):
        command = group.get_command(program, command_name)
        if command is None or command is context.command:
            continue
        for option in _option_names(command, program):
            commands.setdefault(option, []).append(f"{program.command_path} {command_name}")
    return commands


def _join(names: Sequence[str]) -> str:
    """Names with commas and an "and" between them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
