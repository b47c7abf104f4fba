import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points

import click
import pytest
from click.testing import CliRunner

import regard.cli
from regard import __version__
from regard.cli.program import COMMANDS, main
from regard.errors import RegardError

HEAVY = "{'torch', 'rich', 'numpy'}"

HELPS = [[name, "--help"] for name in COMMANDS]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["mechanismes"], [], *HELPS])
def test_what_computes_nothing_imports_neither_torch_nor_rich(spawn, arguments):
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
        f"Known: {', '.join(COMMANDS)}\n"
    )


def test_an_unknown_option_is_one_line_with_a_hint(run):
    result = run("explain", "a b", "--colour")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("regard: No such option")
    assert "--colour" in line
    assert line.endswith("Try 'regard explain --help'.")


def test_a_missing_argument_is_one_line_with_a_hint(run):
    result = run("evaluate")
    assert result.exit_code == 2
    assert result.stderr == "regard: Missing argument 'MODEL'. Try 'regard evaluate --help'.\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (RegardError("two\nlines"), 2, "regard: two lines\n"),
        (click.ClickException("no usage"), 2, "regard: no usage\n"),
        (OSError(28, "No space left"), 2, "regard: [Errno 28] No space left\n"),
        (
            MemoryError(),
            2,
            "regard: there is not enough memory; give a shorter text or a smaller model\n",
        ),
        (KeyboardInterrupt(), 130, "\nregard: interrupted\n"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(run, monkeypatch, error, code, line):
    def fail(*_):
        raise error

    monkeypatch.setattr("regard.cli.printing.catalog.list_entries", fail)
    result = run("mechanisms")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", line)


def test_torch_without_memory_is_one_line_too(run, monkeypatch):
    def fail(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")

    monkeypatch.setattr("regard.cli.printing.catalog.list_entries", fail)
    assert run("mechanisms").stderr.startswith("regard: there is not enough memory")


@pytest.mark.parametrize("error", [ZeroDivisionError, RuntimeError])
def test_a_mistake_of_ours_is_not_hidden(run, monkeypatch, error):
    def fail(*_):
        raise error("ours")

    monkeypatch.setattr("regard.cli.printing.catalog.list_entries", fail)
    assert isinstance(run("mechanisms").exception, error)


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
    time.sleep(0.5)  # until it waits in a read, where Python hears the signal at once
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


SYSTEM = {"PYTHONIOENCODING": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}


def test_into_a_pipe_goes_utf_8_whatever_the_system_speaks(spawn):
    process = spawn("-m", "regard", "explain", "我 爱", env=SYSTEM)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "我" in output


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_json_keeps_every_character_in_any_encoding(spawn, encoding):
    env = {"PYTHONIOENCODING": encoding}
    process = spawn("-m", "regard", "explain", "我 爱", "--json", env=env)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert json.loads(output)["words"] == ["我", "爱"]


def test_an_error_can_be_said_in_any_encoding(spawn):
    process = spawn("-m", "regard", "mechanisms", "加性", env={"PYTHONIOENCODING": "cp1252"})
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert errors.startswith("regard: no mechanism '??'")


def test_text_of_an_argument_that_is_not_utf_8_is_refused(spawn):
    process = spawn("-m", "regard", "look", os.fsdecode(b"\xff\xfe"))
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (2, "")
    assert errors == "regard: a text is not UTF-8; set the terminal to UTF-8\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(run, shell):
    result = run("--completion", shell)
    assert result.exit_code == 0
    assert f"_REGARD_COMPLETE={shell}_complete" in result.stdout


def test_a_shell_that_we_do_not_know_is_refused(run):
    result = run("--completion", "csh")
    assert result.exit_code == 2
    assert "'csh' is not one of 'bash', 'zsh', 'fish'" in result.stderr


def complete(spawn, words, shell="bash"):
    env = {"_REGARD_COMPLETE": f"{shell}_complete", "COMP_WORDS": words}
    process = spawn("-m", "regard", env=env | {"COMP_CWORD": str(words.count(" "))})
    return process.communicate(timeout=60)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("regard lo", "plain,look"),
        ("regard --comp", "plain,--completion"),
        ("regard look --vi", "plain,--view"),
        ("regard look --view hi", "plain,highlight"),
        ("regard look --model en-zh-r", "plain,en-zh-rnn"),
        ("regard info en-zh-r", "plain,en-zh-rnn"),
    ],
)
def test_the_shell_completes_what_was_begun(spawn, words, found):
    output, errors = complete(spawn, words)
    assert errors == ""
    assert found in output.splitlines()


def test_completing_imports_no_torch(spawn):
    code = (
        "import atexit, sys; from regard.cli import main; "
        f"atexit.register(lambda: print({HEAVY} & set(sys.modules), file=sys.stderr)); "
        "main(prog_name='regard')"
    )
    env = {"_REGARD_COMPLETE": "bash_complete", "COMP_WORDS": "regard look --", "COMP_CWORD": "2"}
    _, errors = spawn("-c", code, env=env).communicate(timeout=60)
    assert errors == "set()\n"


def test_after_an_unknown_command_completing_says_no_error(spawn):
    assert complete(spawn, "regard nothing --")[1] == ""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_takes_the_script_and_completes_by_it(run, tmp_path):
    script = run("--completion", "bash").stdout
    command = tmp_path / "regard"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m regard "$@"\n')
    command.chmod(0o755)
    asked = f'COMP_WORDS=(regard mech); COMP_CWORD=1; _regard_completion "{command}"; '
    lines = f'{script}\n{asked} echo "${{COMPREPLY[@]}}"'
    ran = subprocess.run(
        ["bash", "--norc"], input=lines, text=True, capture_output=True, check=True
    )
    assert (ran.stdout, ran.stderr) == ("mechanisms\n", "")


def test_our_warnings_are_notes_of_one_line_and_others_are_not_shown(spawn):
    code = (
        "import warnings, regard.cli.printing.catalog as m; from regard.cli import main; "
        "m.list_entries = lambda *_: [warnings.warn(w) for w in ('regard is slow', 'other')] and []"
        ";main(['mechanisms'])"
    )
    output, errors = spawn("-c", code).communicate(timeout=60)
    assert (output, errors) == ("", "regard: note: regard is slow\n")


def test_no_colour_leaves_a_command_that_is_no_terminal(spawn):
    output, _ = spawn("-m", "regard", "mechanisms").communicate(timeout=60)
    assert "\x1b" not in output


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colours_unless_it_says_no(env, coloured):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "regard", "mechanisms", "dot"]
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    subprocess.run(command, stdout=theirs, env=clean | {"TERM": "xterm-256color"} | env, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert (b"\x1b[36" in shown or b"\x1b[1;36" in shown) is coloured


@pytest.mark.parametrize(
    "arguments",
    [
        ["look", "a", "--view", "\x1b[2J\u202e"],
        ["look", "\x9b.trace"],
        ["\x1b]0;x\x07"],
        ["mechanisms", "--\x1b[2J"],
    ],
)
def test_an_error_cannot_steer_the_terminal_with_what_was_given(arguments):
    result = CliRunner().invoke(main, arguments, color=True)
    assert result.exit_code == 2
    assert not {*"\x1b\x07\x9b\u202e"} & {*result.stderr}


def test_an_error_about_a_megabyte_is_a_line_that_can_be_read():
    result = CliRunner().invoke(main, ["mechanisms", "x" * 1_000_000])
    assert result.exit_code == 2
    assert len(result.stderr) < 5000
