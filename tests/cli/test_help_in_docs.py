"""The page about the commands shows what the program says, and commands that it has."""

import importlib.util
import re
import shlex
from pathlib import Path

import click
import pytest

from regard.cli import main
from regard.cli.program import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = ["docs/commands.md", "docs/commands.zh.md"]


def page(name):
    return (ROOT / name).read_text("utf-8")


@pytest.fixture(scope="module")
def write_help():
    spec = importlib.util.spec_from_file_location("write_help", ROOT / "tools" / "write_help.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PAGES)
def test_the_help_on_the_page_is_that_of_the_program(write_help, name):
    text = page(name)
    assert write_help.rewritten(text) == text, "python tools/write_help.py docs/commands*.md"


def test_it_is_what_a_terminal_of_eighty_columns_shows(write_help, spawn):
    shown, _ = spawn("-m", "regard", "look", "--help").communicate(timeout=60)
    assert shown == write_help.help_of("look")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_section(name, command):
    assert f"\n## {command}\n" in page(name)
    assert f"\nUsage: regard {command} " in page(name)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_every_exit_code_is_explained(name, code):
    assert re.search(rf"\b{code}[:：]", page(name))


def shown(name):
    lines = [
        line for block in re.findall(r"```bash\n(.*?)```", page(name), re.DOTALL)
        for line in block.splitlines()
    ]  # fmt: skip
    table = re.findall(r"\| `(regard .+?)` \|", page(name))
    return [line.split(" #")[0] for line in [*lines, *table] if line.startswith("regard ")]


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_the_page_are_commands_of_the_program(name):
    for line in shown(name):
        _, command, *arguments = shlex.split(line)
        if command in COMMANDS:
            parent = click.Context(main)
            assert main.get_command(parent, command).make_context(command, arguments, parent)


def test_both_pages_show_the_same_commands():
    english, chinese = (
        [line.replace(" --lang zh", "").strip() for line in shown(name)] for name in PAGES
    )
    assert english == chinese
