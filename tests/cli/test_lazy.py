import warnings

import click
import pytest

from regard.cli import main, options
from regard.cli.lazy import LazyCommand, LazyGroup, command
from regard.cli.program import COMMANDS
from regard.errors import UnknownNameError


@pytest.mark.parametrize("name", COMMANDS)
def test_the_group_says_of_a_command_what_its_own_help_says_first(name):
    command = main.get_command(click.Context(main), name)
    assert command.name == name
    assert command.help.splitlines()[0] == COMMANDS[name].help


def test_listing_and_helping_import_no_command():
    group = LazyGroup("g", lazy={"gone": LazyCommand("no.such.module", "Says nothing.")})
    context = click.Context(group)
    assert group.list_commands(context) == ["gone"]
    assert "gone  Says nothing." in group.get_help(context)


def test_there_is_no_command_of_an_unknown_name():
    group = LazyGroup("g", lazy={"here": LazyCommand("no.such.module", "")})
    assert group.get_command(click.Context(group), "there") is None
    with pytest.raises(UnknownNameError, match="did you mean 'here'"):
        group.resolve_command(click.Context(group), ["there"])


def test_completing_imports_no_command():
    group = LazyGroup(
        "g", lazy={"here": LazyCommand("no.such.module", "Says."), "there": LazyCommand("x", "")}
    )
    found = group.shell_complete(click.Context(group), "he")
    assert [(each.value, each.help) for each in found] == [("here", "Says.")]


@pytest.mark.parametrize(("arguments", "said"), [(["--quiet"], []), ([], ["slow"])])
def test_a_quiet_command_says_no_notes(arguments, said):
    @command()
    @options.quiet
    def work(quiet):
        warnings.warn("slow", stacklevel=1)

    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        work.main(arguments, standalone_mode=False)
    assert [str(each.message) for each in notes] == said
