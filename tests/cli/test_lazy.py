import click
import pytest

from regard.cli import main
from regard.cli.lazy import Lazy, LazyGroup
from regard.cli.program import COMMANDS
from regard.errors import UnknownNameError


@pytest.mark.parametrize("name", COMMANDS)
def test_the_group_says_of_a_command_what_its_own_help_says_first(name):
    command = main.get_command(click.Context(main), name)
    assert command.name == name
    assert command.help.splitlines()[0] == COMMANDS[name].help


def test_listing_and_helping_import_no_command():
    group = LazyGroup("g", lazy={"gone": Lazy("no.such.module", "Says nothing.")})
    context = click.Context(group)
    assert group.list_commands(context) == ["gone"]
    assert "gone  Says nothing." in group.get_help(context)


def test_there_is_no_command_of_an_unknown_name():
    group = LazyGroup("g", lazy={"here": Lazy("no.such.module", "")})
    assert group.get_command(click.Context(group), "there") is None
    with pytest.raises(UnknownNameError, match="did you mean 'here'"):
        group.resolve_command(click.Context(group), ["there"])
