import sys
import time
import types

import pytest

from fuzz import __main__ as runner
from fuzz.record import Record, kind_of


@pytest.fixture
def campaign(monkeypatch):
    """A campaign "fake" that runs what it is given."""

    def install(run):
        module = types.ModuleType("fuzz.fake")
        module.run, module.reproduce = run, lambda seed, number: f"case {number} of {seed}"
        monkeypatch.setitem(sys.modules, "fuzz.fake", module)
        monkeypatch.setattr(runner, "campaigns", lambda: ["fake"])

    return install


def fail_twice(seed, cases, report):
    report("signal: case 3: SIGSEGV", "a stack")
    report("odd", "")
    return cases


def test_failures_are_counted_printed_and_make_the_exit_code_1(campaign, capsys):
    campaign(fail_twice)
    assert runner.main(["fake", "--seed", "7", "--cases", "11"]) == 1
    printed = capsys.readouterr().out
    assert "repeat it: python -m fuzz fake --seed 7 --case 3" in printed
    assert printed.splitlines()[-1].split() == ["fake", "11", "0", "1", "0", "0", "0", "1"]


def test_a_campaign_without_failures_ends_with_0_and_prints_its_seed(campaign, capsys):
    campaign(lambda seed, cases, report: 5)
    assert runner.main([]) == 0
    assert capsys.readouterr().out.startswith("seed ")


def test_a_campaign_whose_time_is_over_is_ended(campaign, capsys):
    campaign(lambda seed, cases, report: time.sleep(60))
    assert runner.main(["--minutes", "0.0001"]) == 0
    assert "its time is over" in capsys.readouterr().out


def test_one_case_is_run_again(campaign, capsys):
    campaign(fail_twice)
    assert runner.main(["fake", "--seed", "7", "--case", "3"]) == 0
    assert capsys.readouterr().out == "case 3 of 7\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["poems"], "no campaign 'poems'"), (["fake", "--case", "3"], "--case needs the name")],
)
def test_a_wrong_command_line_is_refused(campaign, capsys, arguments, message):
    campaign(fail_twice)
    with pytest.raises(SystemExit):
        runner.main(arguments)
    assert message in capsys.readouterr().err


def test_the_kind_of_a_failure_is_what_its_name_begins_with():
    assert kind_of("wrong number: case 5") == "wrong number"
    assert kind_of("something else") == "other"


def test_progress_says_how_long_the_rest_will_take(capsys):
    record = Record("files", 1)
    record.progress(5, 10)
    assert "files: 5 of 10 cases, 0 failed (about 0.0 min left)" in capsys.readouterr().err
