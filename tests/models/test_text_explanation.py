import json

import pytest
import torch

import regard
from regard.attention import Mechanism
from regard.errors import InputError, NotFiniteError
from regard.masks import causal
from regard.models.text_explanation import explain_text, find_word, split_words

TEXT = "我 爱 中国"
EXPLAINABLE = [
    name
    for name, entry in regard.catalog.items()
    if isinstance(entry.build(4), Mechanism) and entry.family != "copying"
]


def _random(words, dim, seed):
    return torch.randn(words, dim, generator=torch.Generator().manual_seed(seed)).double()


def test_the_steps_are_those_of_the_library():
    x = _random(3, 5, 7)
    expected = regard.explain(x, x, x, mask=causal())
    steps = explain_text(TEXT, dim=5, seed=7, mask="causal").steps
    for name in ("similarities", "seen", "weights", "weighted_values", "context"):
        assert torch.equal(getattr(steps, name), getattr(expected, name))


@pytest.mark.parametrize("name", EXPLAINABLE)
def test_every_mechanism_can_be_explained_and_gives_its_own_context(name):
    explanation = explain_text("a b a c", mechanism=name, dim=3)
    torch.manual_seed(1)
    mechanism = regard.catalog[name].build(3).double().eval()
    context = regard.attend(
        explanation.vectors, explanation.vectors, explanation.vectors, mechanism
    )
    torch.testing.assert_close(explanation.steps.context, context)
    assert explanation.untrained == bool(list(mechanism.parameters()))


def test_asking_twice_gives_the_same_and_leaves_the_generator_alone():
    before = torch.get_rng_state()
    first, second = (explain_text(TEXT, mechanism="additive") for _ in range(2))
    assert torch.equal(first.steps.weights, second.steps.weights)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("name", "similarity", "weights"),
    [
        ("cosine", "e = cos(q, k) / τ", "α = softmax(e)"),
        ("hard", "e = q · k", "a ~ softmax(e), c = v_a"),
        ("causal", "e = q · k / √d", "α = softmax(e)"),
        ("global", "e = q W k", "α = softmax(e)"),
        ("alibi", "e = q · k / √d − m_h |i − j|", "α = softmax(e)"),
        ("local-p", "e = q W k", regard.catalog["local-p"].formula),
    ],
)
def test_each_step_has_the_formula_of_what_was_computed(name, similarity, weights):
    assert explain_text(TEXT, mechanism=name).formulas == (similarity, weights, "c = Σ αᵢ vᵢ")


@pytest.mark.parametrize("name", ["multi-head", "rotary", "single-head"])
def test_a_mechanism_with_projections_is_refused_in_one_sentence(name):
    with pytest.raises(
        InputError, match=rf"^{name} does more than compare, .* one of dot, scaled-dot"
    ):
        explain_text(TEXT, mechanism=name, dim=3)


def test_vectors_too_large_to_compare_are_refused(tmp_path):
    path = tmp_path / "large.txt"
    path.write_text("a 1e200\n", encoding="utf-8")
    with pytest.raises(NotFiniteError, match="a score is too large for"):
        explain_text("a a", vectors=path)


def test_the_record_is_json_of_the_asked_rows():
    explanation = explain_text(TEXT, query="爱", mask="causal")
    read = json.loads(json.dumps(explanation.to_json()))
    assert read["queries"] == [{"position": 2, "word": "爱"}]
    assert read["words"] == ["我", "爱", "中国"]
    assert read["weights"] == explanation.steps.weights[[1]].tolist()
    assert read["seen"] == [[True, True, False]]
    assert read["context"] == explanation.steps.context[[1]].tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我 爱 中国", ["我", "爱", "中国"]),
        ("我\u3000爱\t中国\n", ["我", "爱", "中国"]),
        ("我爱中国", ["我", "爱", "中", "国"]),
        ("我爱NLP。", ["我", "爱", "NLP。"]),
        ("attention", ["attention"]),
        ("𠮷野家", ["𠮷", "野", "家"]),
    ],
)
def test_words_stand_between_white_space_and_chinese_without_it_is_cut_into_characters(text, words):
    assert split_words(text) == words


@pytest.mark.parametrize("text", ["", " \t\u3000\n"])
def test_a_text_without_words_is_refused(text):
    with pytest.raises(InputError, match="the text has no words; give some"):
        split_words(text)


@pytest.mark.parametrize(("query", "index"), [("爱", 1), ("3", 2), ("1", 0), ("３", 2)])
def test_a_query_is_a_word_or_a_position_from_one(query, index):
    assert find_word(["我", "爱", "中国", "爱"], query) == index


def test_a_number_that_is_a_word_of_the_text_is_that_word():
    assert find_word(["5", "4", "3", "2"], "2") == 3


@pytest.mark.parametrize("query", ["恨", "0", "4", "-1", "", "9" * 5000])
def test_a_query_that_is_not_in_the_text_is_told_the_words(query):
    with pytest.raises(InputError, match=r"is not in the text; .*: 1 我, 2 爱, 3 中国$"):
        find_word(["我", "爱", "中国"], query)


def test_the_words_of_a_long_text_are_not_all_listed():
    with pytest.raises(InputError, match=r"20 w20, … 300 w300$"):
        find_word([f"w{place}" for place in range(1, 301)], "x")
