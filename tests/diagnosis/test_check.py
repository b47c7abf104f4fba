import pytest
import torch

from regard.diagnosis import Check, Checks, Hit, Limit, diagnose
from regard.diagnosis.check import sayings
from regard.errors import UnknownNameError
from regard.types import Trace
from regard.types.finding import FindingText

SAID = {
    "en": FindingText("{text}{site} has {value:.1f} of {limit:.0f}{often}.", "{word}"),
    "zh": FindingText("{value}"),
}
TRACE = Trace.from_weights(torch.eye(5)[None], list("abcde"))


def a_check(*hits, **settings):
    parts = {"said": SAID, "call": "look({site!r}, {head})"} | settings
    return Check("mine", "warning", Limit(1.0, "above", "a guess"), lambda e, limit: hits, **parts)


def told(*hits, traces=TRACE, **settings):
    return diagnose(traces, checks=[a_check(*hits, **settings)])


def test_a_check_of_ones_own_is_told_like_ours():
    (found,) = told(Hit(2.0, "weights", 0, words={"word": "so"}), view="heatmap")
    assert found.sentence() == "weights has 2.0 of 1."
    assert found.text().meaning == "so"
    assert found.remedy_code == "look('weights', 0)"
    assert (found.view.kind, found.view.site, found.view.head) == ("heatmap", "weights", 0)


@pytest.mark.parametrize(
    ("held", "often"), [(2, ", in both texts"), (1, ", in 1 of 2 texts"), (None, "")]
)
def test_of_several_texts_it_says_in_how_many(held, often):
    hit = Hit(2.0, "weights", 0, 1, held, 2, {"word": ""})
    (found,) = told(hit, traces=[TRACE, TRACE])
    assert found.sentence() == f"In text 2, weights has 2.0 of 1{often}."


def test_a_hit_may_have_a_limit_of_its_own():
    (found,) = told(Hit(2.0, "weights", 0, limit=7.0, words={"word": ""}))
    assert (found.limit, found.sentence()) == (7, "weights has 2.0 of 7.")


def test_heads_are_called_as_the_model_numbers_them():
    chosen = Trace(TRACE.streams, (TRACE["weights"].select([0]),))
    numbered = type(chosen.maps[0])(**{**vars(chosen.maps[0]), "head_indices": (7,)})
    (found,) = told(
        Hit(2.0, "weights", 0, words={"word": ""}), traces=Trace(TRACE.streams, (numbered,))
    )
    assert (found.head, found.remedy_code) == (0, "look('weights', 7)")


def test_words_with_braces_are_words():
    (found,) = told(Hit(2.0, "weights", 0, words={"word": "{site}"}))
    assert found.text().meaning == "{site}"


def test_checks_are_found_by_name_and_the_nearest_is_named():
    checks = Checks([a_check()])
    assert (len(checks), list(checks)) == (1, ["mine"])
    assert repr(checks) == "<1 checks: mine>"
    with pytest.raises(UnknownNameError, match="no check 'mien'; did you mean 'mine'"):
        checks["mien"]


def test_sayings_are_there_in_both_languages():
    assert {*sayings("sink")} == {"en", "zh"}
