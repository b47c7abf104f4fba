"""A short run of the hostile texts, and that no door is missing from them."""

import pytest

from fuzz import text_checks as checks
from fuzz import texts
from fuzz.hostile_texts import STRINGS
from fuzz.text_commands import COMMAND_DOORS
from fuzz.text_doors import OUTPUTS, TABLES, VIEWS
from regard.cli.look import _OUTPUTS as LOOK_SUFFIXES
from regard.cli.program import COMMANDS
from regard.studies.survey.files import SUFFIXES as SURVEY_SUFFIXES
from regard.views.kinds import KINDS

QUICK = [door for door in texts.DOORS if not door.endswith((".png", ".pdf", ".svg"))]
STEERING = "\x1b]52;c;eA==\x07\x9b2J\u202e</script><b a='\"=1"


def failures_of(door, text):
    failure = texts._run_case(door, text)
    return None if failure is None else failure[1]


@pytest.mark.parametrize("door", [*QUICK, "view:heatmap .svg"])
def test_a_hostile_text_does_no_harm(door):
    assert failures_of(door, STEERING) is None


@pytest.mark.parametrize("door", ["view:heatmap .html", "view:heatmap terminal", "survey .csv"])
def test_a_megabyte_ends_in_time(door):
    assert failures_of(door, STRINGS["megabyte"]) is None


def test_every_kind_of_view_every_suffix_and_every_command_has_a_door():
    assert {*KINDS} <= {*VIEWS}
    assert {*LOOK_SUFFIXES, *SURVEY_SUFFIXES} <= {*OUTPUTS, *(name.split()[1] for name in TABLES)}
    assert {*COMMANDS} == {*COMMAND_DOORS}
    offered = {f"view:{kind}" for kind in KINDS} | {f"command:{name}" for name in COMMANDS}
    assert offered <= texts.COVERED


def test_a_failure_is_reported_with_its_case(monkeypatch):
    def fail(text, folder):
        raise ValueError("it is loose")

    reports = []
    monkeypatch.setattr(texts, "DOORS", {"view:heatmap terminal": fail})
    assert texts.run(3, 2, lambda name, detail: reports.append((name, detail))) == 2
    assert [name.split(",")[0] for name, _ in reports] == ["other: view:heatmap terminal"] * 2
    assert reports[1][0].endswith("case 1")
    assert "it is loose" in reports[0][1]


def test_an_error_that_nobody_caught_is_a_traceback(monkeypatch):
    monkeypatch.setattr(texts, "DOORS", {"door": lambda text, folder: 1 / 0})
    assert texts._run_case("door", "")[0] == "traceback"


def test_the_same_seed_draws_the_same_cases():
    assert [*texts._cases(5, 20)] == [*texts._cases(5, 20)] != [*texts._cases(6, 20)]


@pytest.mark.parametrize("output", ["\x1b[31m", "a\rb", "\x9b", "\u202e", "\u2028", "\U000e0041"])
def test_the_check_of_terminals_can_fail(output):
    with pytest.raises(ValueError, match="is in the output"):
        checks.check_terminal(output)


def test_the_check_of_terminals_takes_lines_and_our_colours():
    checks.check_terminal("a\tb\n\x1b[1;38;5;2mc\x1b[0m 👨‍👩‍👧", coloured=True)


def test_the_check_of_pages_can_fail():
    with pytest.raises(ValueError, match="elements more"):
        checks.check_same_elements("<p><b></p>", "<p></p>")


def test_the_check_of_drawings_can_fail():
    known = checks.svg_attributes(b"<svg><text x='1'/></svg>")
    checks.check_svg(b"<svg><text x='2'/></svg>", known)
    with pytest.raises(ValueError, match="onload"):
        checks.check_svg(b"<svg onload='f'/>", known)


def test_the_check_of_tables_can_fail():
    checks.check_csv("a,-1.5\n'=1,2\n")
    with pytest.raises(ValueError, match="formula"):
        checks.check_csv("a,=1\n")


def test_the_check_of_json_can_fail():
    checks.check_json('{"a": ["\\u001b"]}', "\x1b")
    with pytest.raises(ValueError, match="no string"):
        checks.check_json('["b"]', "\x1b")
