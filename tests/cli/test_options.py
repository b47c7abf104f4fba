import pytest


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
