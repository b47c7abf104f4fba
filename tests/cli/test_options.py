import re
import shlex

import click
import pytest

from regard.cli import main, options
from regard.cli.program import COMMANDS

SHARED = {
    "--model": options.model,
    "--out": options.out,
    "--lang": options.language,
    "--json": options.as_json,
    "--seed": options.seed,
    "--device": options.device,
    "--quiet": options.quiet,
}


def command(name):
    return main.get_command(click.Context(main), name)


def of_name(params, name):
    return next((each for each in params if name in each.opts), None)


def meaning(option):
    """What a shared option is, without its default and what a command may widen: kinds of files."""
    plain = (option.metavar, type(option.type), option.is_flag)
    without_default = re.sub(r" \[.*\]$", "", option.help)
    return plain if "--out" in option.opts else (*plain, without_default)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("shared", SHARED)
def test_an_option_of_one_name_means_the_same_in_every_command(name, shared):
    own = of_name(command(name).params, shared)
    if own is not None:
        usual = of_name(click.command()(SHARED[shared](lambda **_: None)).params, shared)
        assert meaning(own) == meaning(usual)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_speaks_both_languages_and_prints_json(name):
    assert of_name(command(name).params, "--lang")
    assert of_name(command(name).params, "--json")


@pytest.mark.parametrize("name", [each for each in COMMANDS if each not in ("explain",)])
def test_what_runs_a_model_says_where_and_can_be_quiet(name):
    params = command(name).params
    runs = of_name(params, "--model") or name in ("train", "evaluate", "diagnose", "survey")
    assert bool(runs) is bool(of_name(params, "--device")) is bool(of_name(params, "--quiet"))


@pytest.mark.parametrize("name", ["evaluate", "diagnose", "survey"])
def test_the_model_comes_first_where_it_is_what_the_command_is_about(name):
    first = next(each for each in command(name).params if isinstance(each, click.Argument))
    assert first.name == "model"


def examples():
    for name in COMMANDS:
        for line in re.findall(r"regard (\w.*)", command(name).epilog or ""):
            for part in re.split(r" (?:&&|\||>|#) ?", line):
                words = shlex.split(part.removeprefix("regard "))
                if words and words[0] in COMMANDS:
                    yield words


@pytest.mark.parametrize("words", list(examples()), ids=" ".join)
def test_every_example_of_the_help_is_a_command_that_exists(words):
    name, *arguments = words
    assert command(name).make_context(name, arguments, parent=click.Context(main))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example(name):
    assert f"regard {name}" in command(name).epilog


@pytest.mark.parametrize(
    ("arguments", "environment", "word"),
    [
        ([], {}, "Paper"),
        (["--lang", "zh"], {}, "论文"),
        ([], {"REGARD_LANG": "zh"}, "论文"),
        ([], {"LANG": "zh_CN.UTF-8"}, "论文"),
        ([], {"LANG": "en_GB.UTF-8"}, "Paper"),
        ([], {"REGARD_LANG": "en", "LANG": "zh_TW"}, "Paper"),
        ([], {"REGARD_LANG": "", "LANG": "zh_CN"}, "论文"),
        (["--lang", "en"], {"REGARD_LANG": "zh"}, "Paper"),
    ],
)
def test_the_language_is_the_option_then_the_variable_then_the_locale(
    run, arguments, environment, word
):
    assert f"\n{word} " in run("mechanisms", "dot", *arguments, **environment).stdout


@pytest.mark.parametrize(
    ("arguments", "environment"), [(["--lang", "fr"], {}), ([], {"REGARD_LANG": "fr"})]
)
def test_a_language_that_we_do_not_speak_is_refused(run, arguments, environment):
    result = run("mechanisms", *arguments, **environment)
    assert result.exit_code == 2
    assert "'--lang'" in result.stderr
    assert "'fr' is not one of 'en', 'zh'" in result.stderr


def test_the_shell_is_told_the_shipped_models_and_folders():
    found = options.complete_model_name(None, None, "en-zh-r")
    assert [(each.value, each.type) for each in found] == [
        ("en-zh-rnn", "plain"),
        ("en-zh-r", "dir"),
    ]


@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        (["diagnose", "I love you"], 'regard diagnose en-zh-transformer "I love you"'),
        (["diagnose", "I love you", "en-zh-rnn"], 'regard diagnose en-zh-transformer "I love you"'),
        (["survey", "I love you"], "regard survey en-zh-transformer pairs.tsv"),
        (["evaluate", "我爱你", "test.tsv"], "regard evaluate ./en-zh test.tsv"),
        (["look", "--model", "I love you"], 'regard look "I love you"'),
        (["translate", "--model", "I love you"], 'regard translate "I love you"'),
        (["generate", "--model", "I love you"], 'regard generate "Once upon a time"'),
    ],
)
def test_a_text_where_a_model_belongs_is_answered_with_a_call_that_is_right(
    run, arguments, example
):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"is a text and no model; for example: {example}" in result.stderr


@pytest.mark.parametrize("name", ["evaluate", "survey", "diagnose"])
def test_a_file_before_the_model_is_answered_with_a_call_that_is_right(run, tmp_path, name):
    (tmp_path / "test.tsv").write_text("a\tb\n")
    result = run(name, str(tmp_path / "test.tsv"), "en-zh-rnn")
    assert result.exit_code == 2
    assert "test.tsv is a file and no model; for example: regard " in result.stderr


def test_a_folder_whose_name_has_a_space_is_a_model(run, tmp_path, monkeypatch):
    (tmp_path / "my model").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "my model has no config.json" in run("diagnose", "my model", "a b").stderr


def test_a_text_longer_than_any_path_is_a_text(run):
    assert "is a text and no model" in run("diagnose", "word " * 9999).stderr
