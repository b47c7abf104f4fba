import os
import runpy
import signal
import time
from importlib.metadata import entry_points

import click
import pytest

import regard.cli
from regard import __version__
from regard.cli.program import COMMANDS
from regard.errors import RegardError

HEAVY = "{'torch', 'rich', 'numpy'}"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["mechanismes"], []])
def test_what_needs_no_command_imports_neither_torch_nor_rich(spawn, arguments):
    code = (
        "import atexit, sys; from regard.cli import main; "
        f"atexit.register(lambda: print({HEAVY} & set(sys.modules), file=sys.stderr)); "
        f"main({arguments!r})"
    )
    _, errors = spawn("-c", code).communicate(timeout=60)
    assert errors.endswith("set()\n")


def test_python_m_regard_is_the_command(spawn):
    process = spawn("-m", "regard", "--version")
    assert process.communicate(timeout=60) == (f"regard {__version__}\n", "")
    assert process.returncode == 0


def test_the_package_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["regard", "--version"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_module("regard", run_name="__main__")
    assert capsys.readouterr().out == f"regard {__version__}\n"


def test_the_installed_command_is_main():
    (command,) = entry_points(group="console_scripts", name="regard")
    assert command.load() is regard.cli.main


def test_the_help_lists_every_command_and_shows_examples(run):
    result = run("--help")
    assert result.exit_code == 0
    assert all(f"{name} " in result.stdout for name in COMMANDS)
    assert '  regard explain "我 爱 中国" --query 爱\n' in result.stdout


def test_no_arguments_give_the_help(run):
    result = run()
    assert (result.exit_code, result.stdout) == (0, run("--help").stdout)


def test_an_unknown_command_is_told_the_nearest(run):
    result = run("mechanismes")
    assert result.exit_code == 2
    assert result.stderr == (
        "regard: no command 'mechanismes'; did you mean 'mechanisms'? "
        "Known: look, explain, mechanisms, translate, generate, train, evaluate\n"
    )


def test_an_unknown_option_is_one_line_and_a_hint(run):
    result = run("explain", "a b", "--colour")
    assert (result.exit_code, result.stdout) == (2, "")
    first, hint = result.stderr.splitlines()
    assert first.startswith("regard: No such option")
    assert "--colour" in first
    assert hint == "Try 'regard explain --help'."


def test_a_missing_argument_is_one_line_and_a_hint(run):
    result = run("explain")
    assert result.exit_code == 2
    assert result.stderr == "regard: Missing argument 'TEXT'.\nTry 'regard explain --help'.\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (RegardError("two\nlines"), 2, "regard: two lines\n"),
        (click.ClickException("no usage"), 1, "regard: no usage\n"),
        (KeyboardInterrupt(), 130, "\nregard: interrupted\n"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(run, monkeypatch, error, code, line):
    def fail(*_):
        raise error

    monkeypatch.setattr("regard.cli.mechanisms._overview", fail)
    result = run("mechanisms")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", line)


def test_a_mistake_of_ours_is_not_hidden(run, monkeypatch):
    monkeypatch.setattr("regard.cli.mechanisms._overview", lambda *_: 1 / 0)
    assert isinstance(run("mechanisms").exception, ZeroDivisionError)


def _writer(pipe, patience=60):
    """The pipe's end for writing, as soon as somebody reads it."""
    for _ in range(patience * 20):
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("nobody reads the pipe")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a named pipe")
def test_control_c_ends_a_running_command_with_130(spawn, tmp_path):
    pipe = tmp_path / "vectors.txt"
    os.mkfifo(pipe)
    process = spawn("-m", "regard", "explain", "a b", "--vectors", str(pipe))
    writer = _writer(pipe)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    os.close(writer)
    assert (output, errors.strip()) == ("", "regard: interrupted")
    assert process.returncode == 130


@pytest.mark.parametrize("arguments", [["mechanisms"], ["mechanisms", "--json"], ["--help"]])
def test_a_closed_pipe_is_quiet(spawn, arguments):
    process = spawn("-m", "regard", *arguments)
    process.stdout.close()
    process.stdout = None
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 1


def test_a_terminal_without_our_characters_gets_question_marks(spawn):
    process = spawn("-m", "regard", "explain", "我 爱", env={"PYTHONIOENCODING": "ascii"})
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert output.isascii()
    assert "1.541" in output
