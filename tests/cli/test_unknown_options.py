import pytest


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["look", "a", "--temperature", "1"], "an option of regard translate and regard generate"),
        (["look", "a", "--temprature", "1"], "nearest is --temperature of regard translate and"),
        (["look", "a", "--deep"], "it is an option of regard diagnose"),
        (["look", "a", "--modle", "x"], "the nearest is --model."),
        (["look", "a", "-m", "x"], "the nearest is --model."),
        (
            ["--model", "x", "look"],
            "of regard look, regard classify, regard answer, regard summarise, regard recognise, ",
        ),
        (["train", "a", "--qqqqq"], "regard train has --set, --tensorboard, --lang"),
    ],
)
def test_an_unknown_option_names_the_option_or_the_command_that_was_meant(
    run, arguments, suggestion
):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("regard: No such option '")
    assert suggestion in line


def test_a_command_that_is_run_on_its_own_names_its_own_options():
    from click.testing import CliRunner

    from regard.cli.look import look

    result = CliRunner().invoke(look, ["a", "--vieww", "flow"])
    assert "the nearest is --view" in result.stderr
