"""Commands that a new user got wrong: each is answered by one line that names the way out."""

import shlex

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "texts").mkdir()
    (tmp_path / "notes.txt").write_text("I love you\n")
    (tmp_path / "short").write_text("secret\n")
    (tmp_path / "pairs.tsv").write_text("I love you\t我爱你\n")
    (tmp_path / "broken.trace").write_text("x\n")
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("look en-zh-transformer", "is a model and no text; give a text and --model en-zh-transf"),
        ("look ./gpt", "./gpt is a model and no text; give a text and --model ./gpt"),
        ("translate en-zh-rnn", "en-zh-rnn is a model and no text; give a text and --model"),
        ("diagnose stories en-zh-rnn", "en-zh-rnn is a model and no text; give a text"),
        ("translate notes.txt", "notes.txt is a file; to read it: --file notes.txt"),
        ("generate notes.txt", "notes.txt is a file; to read it: --file notes.txt"),
        ("diagnose stories notes.txt", "notes.txt is a file; to read it: --file notes.txt"),
        ("diagnose broken.trace", "broken.trace is cut short"),
        ("look a --out ''", "Invalid value for '--out': the name is empty; name a file"),
        ("look --file ''", "Invalid value for '--file': the name is empty; name a file"),
        ("look --trace ''", "Invalid value for '--trace': the name is empty; name a file"),
        ("look a --model ''", "the name is empty; for example: regard look"),
        ("diagnose ''", "the name is empty; for example: regard diagnose en-zh-transformer"),
        ("info ''", "the name is empty; for example: regard info love.trace"),
        ("models ''", "Invalid value for '[FOLDER]': the name is empty"),
        ("train ''", "Invalid value for 'RECIPE': the name is empty"),
        ("train texts", "Invalid value for 'RECIPE': File 'texts' is a directory"),
        ("evaluate en-zh-rnn ''", "Invalid value for 'DATA': the name is empty"),
        ("evaluate en-zh-rnn texts", "Invalid value for 'DATA': File 'texts' is a directory"),
        ("survey en-zh-rnn texts", "Invalid value for 'CORPUS': File 'texts' is a directory"),
        ("survey en-zh-rnn pairs.tsv --out ''", "Invalid value for '--out': the name is empty"),
        ("info short", "short is no trace, and no file in the folder of a model; name one"),
        ("look a --model https://hub.co/gpt2", "is an address; give the hub name alone: owner/nam"),
    ],
)
def test_a_wrong_command_is_answered_by_one_line(run, folder, command, message):
    result = run(*shlex.split(command))
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert message in line


@pytest.mark.parametrize(
    "command",
    [
        "look 'I love you' --new 99999999999999999999999",
        "translate 'I love you' --max-length 99999999999999999999999",
        "translate stories",
    ],
)
def test_a_number_that_is_too_large_is_no_limit_and_a_word_may_be_a_model(run, folder, command):
    result = run(*shlex.split(command))
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_file_that_may_not_be_read_is_named_without_a_number(run, folder, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "gpt/config.json")

    monkeypatch.setattr("regard.loading.describe_model", refuse)
    result = run("info", "gpt")
    assert result.exit_code == 2
    assert result.stderr == "regard: cannot use gpt/config.json: Permission denied\n"
