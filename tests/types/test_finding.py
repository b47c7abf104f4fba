import json

import pytest

from regard.errors import InputError, UnknownNameError
from regard.types.finding import SEVERITIES, Finding, FindingText, FindingView

TEXTS = {
    "en": FindingText("Head 3 rests.", "A sink.", "Nothing."),
    "zh": FindingText("第 3 头停着。"),
}


def a_finding(**changes):
    settings = {"check": "sink", "severity": "observation", "value": 0.9, "limit": 0.5} | changes
    return Finding(**({"texts": TEXTS} | settings))


def test_severities_rise_from_observation_to_bug():
    assert SEVERITIES == ("observation", "warning", "bug")


def test_a_finding_speaks_the_language_that_is_asked_for():
    assert a_finding().sentence("zh") == "第 3 头停着。"
    assert a_finding().text("en").meaning == "A sink."


def test_a_finding_as_text_is_its_severity_and_sentence():
    assert str(a_finding()) == "observation: Head 3 rests."


def test_a_language_that_it_does_not_speak_is_refused():
    with pytest.raises(UnknownNameError, match=r"no language 'fr'.*Known: en, zh"):
        a_finding().sentence("fr")


def test_a_severity_that_there_is_not_is_refused(unchecked):
    with pytest.raises(UnknownNameError, match="no severity 'alarm'"):
        a_finding(severity="alarm")


def test_a_finding_without_a_sentence_is_refused():
    with pytest.raises(InputError, match="the finding 'sink' expected a sentence, got none"):
        a_finding(texts={})


def test_a_finding_goes_through_json():
    view = FindingView("heatmap", "h.2", 3, columns=(0,))
    restored = json.loads(json.dumps(a_finding(view=view, numbers={"word": "<s>"}).to_json()))
    assert restored["view"]["columns"] == [0]
    assert restored["texts"]["en"]["remedy"] == "Nothing."
    assert restored["numbers"] == {"word": "<s>"}
