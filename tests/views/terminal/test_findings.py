"""Findings in the terminal by their lines."""

import io

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from regard.types import Trace
from regard.types.finding import Finding, FindingText, FindingView
from regard.views import report
from views import vectors


def printed(view, width=80, encoding="utf-8", colour=None):
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, color_system=colour, force_terminal=bool(colour))
    with console.capture() as drawn:
        console.print(view)
    return drawn.get()


def told(**extras):
    return report(vectors.a_trace(), vectors.findings(), **extras)


def test_findings_are_counted_and_listed_with_all_that_is_said_of_them():
    lines = printed(told(title="Mine"), 120).splitlines()
    assert lines[:2] == ["Mine", "Bugs 1 · Warnings 1 · Observations 2"]
    assert lines[3] == f"■ Bug: Looks at {vectors.HOSTILE}."
    assert lines[4] == "  cross.0 · leak · nan (limit 0.001)"
    assert lines[5:7] == [
        "  What it usually means: It is <b>tired</b>.",
        "  What to do: Let it & rest.",
    ]
    assert "  encoder.0, head 1 · sink · 0.91 (limit 0.5)" in lines
    assert f"    try('{vectors.HOSTILE}')" in lines


def test_a_language_that_a_finding_has_not_is_said_in_another():
    text = printed(told(language="zh"), 120)
    assert "■ 错误：看向首个词元。" in text
    assert "▲ 警告：Nobody knows." in text


def test_a_report_that_found_nothing_says_so():
    assert "No findings." in printed(report(vectors.a_trace(), []))


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_line_is_wider_than_the_terminal(width, language):
    lines = printed(told(language=language), width).splitlines()
    assert max(map(cell_len, lines)) <= width


def test_severities_are_told_apart_without_colours_and_letters_of_other_scripts():
    text = printed(told(), encoding="ascii")
    assert text.isascii()
    assert "! Bug: " in text
    assert "- Observation: " in text


def test_severities_have_colours_where_there_are_some():
    assert "\x1b[31m■ " in printed(told(), colour="truecolor")


def test_code_keeps_its_lines_and_indents():
    said = {"en": FindingText("A head is dead.")}
    call = "with watch(model):\n    model(" + "first, " * 9 + "last)"
    found = Finding("dead", "warning", 1, 0, said, view=FindingView("heads"), remedy_code=call)
    lines = printed(report(Trace.from_weights(torch.eye(2), ["a", "b"]), [found]), 40).splitlines()
    assert "    with watch(model):" in lines
    assert lines[-1].startswith("        ")
    assert "".join(lines[-3:]).split()[-1] == "last)"


def test_a_finding_of_a_megabyte_is_cut():
    long = "x" * 1_000_000
    texts = {"en": FindingText(long, long, long)}
    found = Finding(long, "bug", 1.0, 0.5, texts, "weights", 0, remedy_code=long)
    shown = printed(report(Trace.from_weights(torch.eye(2), ["a", "b"]), [found], title=long))
    assert len(shown) < 25_000
