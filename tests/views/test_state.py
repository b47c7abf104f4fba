import pytest

from regard.errors import InputError, UnknownNameError
from regard.views import MapReference, ViewState

FULL = ViewState(
    view="compare",
    trace=1,
    site="层/h.0 & <b>",
    head=3,
    heads=(5, 1, 5),
    axis="column",
    place=7,
    span="all",
    depth="layer",
    label="read",
    unit="word",
    hide=("special", "first"),
    scale="log",
    threshold=0.25,
    other=MapReference(0, "a,b=c", None),
    finding=11,
    language="zh",
    theme="dark",
)


def test_a_state_comes_back_from_json():
    assert ViewState.from_json(FULL.to_json()) == FULL


def test_a_state_comes_back_from_the_hash_of_an_address():
    assert ViewState.from_hash(FULL.to_hash()) == FULL


def test_a_hash_holds_only_plain_characters():
    assert FULL.to_hash().isascii()
    assert "<" not in FULL.to_hash()
    assert " " not in FULL.to_hash()


def test_a_hash_says_what_differs_from_the_usual():
    usual = ViewState("heatmap", site="h.0", head=2, hide=("first",))
    other = ViewState("heatmap", site="h.0", hide=())
    assert other.to_hash(usual) == "#head=&hide="
    assert ViewState.from_hash("#head=&hide=", usual) == other
    assert usual.to_hash(usual) == "#"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "#nothing",
        "#view=circus",
        "#head=x&trace=-1",
        "#trace=&finding=two",
        "#view=",
        "#other=1",
        "#heads=,",
        "#threshold=9",
        "#site",
        "#hide=second",
        "#__class__=x",
        "#threshold=nan",
    ],
)
def test_what_a_hash_cannot_say_stays_as_it_was(text):
    usual = ViewState("heatmap", head=2, hide=("first",))
    found = ViewState.from_hash(text, usual)
    assert found == usual


def test_heads_are_in_order_and_hidden_tokens_too():
    assert FULL.heads == (1, 5)
    assert FULL.hide == ("first", "special")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"view": "heatmop"}, "no view 'heatmop'; did you mean 'heatmap'"),
        ({"view": None}, "no view 'None'"),
        ({"unit": "letter"}, "no unit 'letter'"),
        ({"scale": "sqrt"}, "no scale 'sqrt'"),
        ({"hide": ("last",)}, "no kind of token to hide 'last'"),
        ({"head": -1}, "a whole number of 0 and more for the head, got -1"),
        ({"head": 1.5}, "a whole number of 0 and more for the head, got 1.5"),
        ({"head": True}, "a whole number of 0 and more for the head, got True"),
        ({"place": "x"}, "a whole number of 0 and more for the place, got 'x'"),
        ({"threshold": 2}, "expected a threshold from 0 to 1, got 2"),
        ({"threshold": "x"}, "expected a threshold from 0 to 1, got 'x'"),
        ({"trace": -2}, "a whole number of 0 and more for the trace, got -2"),
        ({"trace": None}, "a whole number of 0 and more for the trace"),
        ({"finding": -1}, "a whole number of 0 and more for the finding, got -1"),
        ({"colour": "red"}, "no part of a state 'colour'"),
        ({"other": 3}, "expected trace, site and head of the other side, got 3"),
    ],
)
def test_bad_values_are_refused_with_a_sentence(wrong, message, unchecked):
    with pytest.raises(InputError, match=message):
        ViewState.from_json(wrong)


def test_an_unknown_language_is_refused(unchecked):
    with pytest.raises(UnknownNameError, match="no language 'fr'"):
        ViewState(language="fr")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([], "expected a state as an object, got"),
        ({"site": 5}, "expected site to be text or null, got 5"),
        ({"heads": ["x"]}, r"expected heads\[0\] to be a whole number, got 'x'"),
        ({"head": 2**64}, "expected head to be a whole number or null, got 1844"),
        ({"hide": None}, "expected hide to be a list, got None"),
        ({"threshold": float("nan")}, "expected a threshold from 0 to 1, got nan"),
        ({"view": ["heads"]}, "no view"),
        ({"other": {"site": 3}}, "the other side expected site to be text or null, got 3"),
    ],
)
def test_wrong_types_in_the_json_of_a_state_are_named(unchecked, state, message):
    with pytest.raises(InputError, match=message):
        ViewState.from_json(state)
