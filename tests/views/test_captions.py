import pytest

from regard.text import say
from regard.types.finding import Finding, FindingText
from regard.views import ViewState
from regard.views.captions import finding_value, join_sentences, percent


@pytest.mark.parametrize(
    ("weight", "shown"),
    [
        (0.0, "0%"),
        (1e-7, "< 0.1%"),
        (0.00099, "< 0.1%"),
        (0.001, "0.10%"),
        (0.00994, "0.99%"),
        (0.0123, "1.2%"),
        (0.5, "50.0%"),
        (1.0, "100.0%"),
        (-0.02, "−2.0%"),
        (-0.0001, "−< 0.1%"),
    ],
)
def test_a_weight_is_shown_as_a_percentage(weight, shown):
    assert percent(weight) == shown


def test_a_name_with_braces_is_said_as_it_is():
    said = join_sentences("en", [("caption.head", {"site": "{head}{0}", "head": 3})])
    assert said == "{head}{0}, head 3."


def test_sentences_are_joined_as_each_language_does():
    said = [("caption.rows.read", {}), ("caption.hide.first", {})]
    assert join_sentences(None, said).count(". ") == 1
    assert " " not in join_sentences("zh", said)


def test_every_choice_of_a_state_has_its_words():
    for name in ("view", "unit", "scale", "span", "depth"):
        key = f"{name}.{getattr(ViewState(), name)}"
        assert say(key, "en")


def test_an_observation_without_a_limit_is_told_by_its_number_alone():
    said = {"en": FindingText("So it is.")}
    assert finding_value(Finding("portrait", "observation", 4.9137, 0, said), "en") == "4.91"
    assert finding_value(Finding("numeric", "bug", 0.2, 0, said), "zh") == "0.2（阈值 0）"
