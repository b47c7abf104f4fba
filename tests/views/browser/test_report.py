"""Reports in a browser: findings beside the pictures that show them."""

import pytest

from regard.text import say
from regard.types.finding import Finding, FindingText, FindingView
from regard.views import report
from views.browser import scenes


def said(name):
    return {
        "en": FindingText(
            f"The sentence of {name}.", f"The meaning of {name}.", f"The way out, {name}."
        ),
        "zh": FindingText(f"{name} 的句子。", f"{name} 的含义。", f"{name} 的出路。"),
    }


def findings():
    hostile = scenes.HOSTILE[1]
    column = FindingView("heatmap", "layer.1", 2, columns=(6, 8))
    row = FindingView("highlight", "layer.0", None, rows=(4,))
    return [
        Finding("sink", "observation", 0.9, 0.5, said("one"), "layer.1", 2, 0, column),
        Finding("leak", "bug", 0.1, 0.0, said(hostile), "layer.0", 1, 1, row, f"call({hostile!r})"),
        Finding("odd", "warning", 1.0, 0.0, {"en": FindingText("Only English.")}),
    ]


@pytest.fixture
def opened(open_page):
    def opening(address="", **options):
        traces = [scenes.a_trace(), scenes.a_trace(seed=5)]
        return open_page(report(traces, findings()), address, **options)

    return opening


def test_a_report_says_its_findings_and_shows_the_first(opened):
    found = opened()
    assert found.page.locator(".finding").count() == 3
    assert "Bugs 1" in found.text(".sum")
    assert found.caption.startswith("layer.0, mean over 3 heads. What words attends to.")
    open_ = found.text(".finding.open")
    for part in ("Bug", "The meaning of", "The way out", "call(", "layer.0, head 1 · leak"):
        assert part in open_


def test_a_click_opens_the_picture_of_a_finding_and_the_address_keeps_it(opened):
    found = opened()
    found.click('[data-key="finding.2"]')
    assert found.caption.startswith("layer.1, head 2.")
    assert found.text(".top h2") == "What attends to 我."
    assert found.text(".finding.open .sentence") == "The sentence of one."
    address = found.hash
    assert "finding=2" in address
    again = opened(address)
    assert again.caption.startswith("layer.1, head 2.")
    assert again.text(".finding.open .sentence") == "The sentence of one."


def test_a_second_click_closes_a_finding_and_leaves_its_picture(opened):
    found = opened()
    found.click('[data-key="finding.2"]')
    found.click('[data-key="finding.2"]')
    assert found.page.locator(".finding.open").count() == 0
    assert found.page.locator(".detail:visible").count() == 0
    assert found.caption.startswith("layer.1, head 2.")


def test_a_finding_without_a_picture_leaves_the_one_that_is_there(opened):
    found = opened()
    before = found.caption
    found.click('[data-key="finding.1"]')
    assert found.caption == before
    assert found.text(".finding.open .sentence") == "Only English."


def test_what_is_said_of_findings_stays_text(opened):
    found = opened()
    hostile = scenes.HOSTILE[1]
    assert hostile in found.text(".finding.open .sentence")
    assert hostile in found.text(".finding.open pre")
    assert found.page.locator(".findings img").count() == 0
    assert found.page.title() != "owned"


def test_findings_speak_both_languages_and_severity_is_told_by_more_than_colour(opened):
    found = opened("#language=zh")
    assert say("report.title", "zh") in found.text(".sum")
    first = found.text(".finding.open")
    assert "的句子" in first
    assert say("finding.remedy", "zh") in first
    assert found.text(".finding.bug .severity") == f"■{say('severity.bug', 'zh')}"
    assert found.text(".finding.warning .severity") == f"▲{say('severity.warning', 'zh')}"
    found.click('[data-key="language"]')
    assert "The sentence of" in found.text(".finding.open")


def test_heads_have_badges_with_the_sign_of_their_severity(opened):
    found = opened("#view=heads&trace=0")
    assert found.text('[data-head="layer.1 2"] .badges') == "○ sink"
    assert found.text('[data-head="layer.0 1"] .badges') == "■ leak"


def test_keys_go_through_the_findings(opened):
    found = opened()
    found.press("n", "n")
    assert found.text(".finding.open .sentence") == "The sentence of one."
    found.press("n", "p")
    assert found.text(".finding.open .sentence") == "Only English."
    found.press("?")
    assert "next and the previous finding" in found.text("dialog.help")
    found.press("Escape")


def test_two_heads_of_one_text_are_compared_never_two_texts(opened):
    found = opened()
    found.click('[data-key="view.compare"]')
    assert found.page.locator(".pane canvas[role=img]").count() == 3
    assert "layer.0, head 1." in found.caption
    assert found.page.locator('[data-key^="other.trace"]').count() == 0


def test_another_text_of_a_report_is_chosen_and_the_title_follows(opened):
    found = opened()
    assert "trace" in found.text(".toolbar")
    found.click('[data-key="trace.0"]')
    assert found.hash.startswith("#trace=0")


def test_a_report_is_no_wider_than_a_telephone(opened):
    found = opened(width=400)
    for name in ("heads", "heatmap", "highlight", "flow", "compare"):
        found.look(f"#view={name}&head=0")
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 400, name


def test_an_empty_report_says_that_nothing_was_found(open_page):
    found = open_page(report(scenes.a_trace(), []))
    assert found.text(".findings .hint") == say("report.none", "en")
    assert found.page.locator(".tile").count() == scenes.LAYERS * scenes.HEADS
