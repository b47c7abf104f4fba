import subprocess
import sys

import pytest

from regard.errors import UnknownNameError
from regard.text import LANGUAGES, say, sentences, template


def test_a_sentence_is_said_in_the_language_that_is_named():
    assert say("view.heatmap", "en") == "Heatmap"
    assert say("view.heatmap", "zh") == "热力图"


def test_without_a_language_it_is_english():
    assert say("view.heatmap", None) == say("view.heatmap", LANGUAGES[0])


def test_values_are_filled_in():
    assert say("caption.head", "en", site="h.5", head=3) == "h.5, head 3."


def test_values_with_braces_stay_as_they_are():
    assert say("caption.head", "en", site="{head}{0}", head=3) == "{head}{0}, head 3."


def test_a_template_keeps_its_placeholders():
    assert template("caption.head", "en") == "{site}, head {head}."


def test_the_sentences_of_areas_come_by_language_and_key():
    found = sentences("page", "tables")
    assert {*found} == {*LANGUAGES}
    assert found["zh"]["table.sort"] == say("table.sort", "zh")
    assert found["en"].keys() == found["zh"].keys()
    assert "caption.head" not in found["en"]


def test_an_unknown_key_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"no sentence 'view.heatmpa'; did you mean"):
        say("view.heatmpa", "en")


def test_an_unknown_language_names_those_that_are_known():
    with pytest.raises(UnknownNameError, match=r"no language 'fr'; Known: en, zh"):
        say("view.heatmap", "fr")


def test_an_unknown_area_names_those_that_are_known():
    with pytest.raises(
        UnknownNameError, match=r"no area of sentences 'pages'; did you mean 'page'"
    ):
        sentences("pages")


def test_sentences_are_there_without_torch_or_numpy():
    line = "import sys, regard.text; regard.text.say('view.heads', 'en'); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "rich", "click"} & {*ran.stdout.split()}
