import json

import pytest
import torch

import regard
from regard.attention import Mechanism
from regard.cli.work.lesson import Request, prepare, record
from regard.errors import InputError, NotFiniteError
from regard.masks import causal

EXPLAINABLE = [n for n, entry in regard.catalog.items() if isinstance(entry.build(4), Mechanism)]


def _request(text="我 爱 中国", **changes):
    usual = {"query": None, "mechanism": "scaled-dot", "mask": None, "vectors": None}
    return Request(**{"text": text, "dim": None, "seed": 0, **usual, **changes})


def _random(words, dim, seed):
    return torch.randn(words, dim, generator=torch.Generator().manual_seed(seed)).double()


def test_the_steps_are_those_of_the_library():
    x = _random(3, 5, 7)
    expected = regard.explain(x, x, x, mask=causal())
    steps = prepare(_request(dim=5, seed=7, mask="causal")).steps
    for name in ("similarities", "seen", "weights", "weighted_values", "context"):
        assert torch.equal(getattr(steps, name), getattr(expected, name))


@pytest.mark.parametrize("name", EXPLAINABLE)
def test_every_mechanism_can_be_explained_and_gives_its_own_context(name):
    lesson = prepare(_request("a b a c", mechanism=name, dim=3))
    torch.manual_seed(1)
    mechanism = regard.catalog[name].build(3).double().eval()
    context = regard.attend(lesson.vectors, lesson.vectors, lesson.vectors, mechanism)
    torch.testing.assert_close(lesson.steps.context, context)
    assert lesson.untrained == bool(list(mechanism.parameters()))


def test_asking_twice_gives_the_same_and_leaves_the_generator_alone():
    before = torch.get_rng_state()
    first, second = (prepare(_request(mechanism="additive")) for _ in range(2))
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
    assert prepare(_request(mechanism=name)).formulas == (similarity, weights, "c = Σ αᵢ vᵢ")


@pytest.mark.parametrize("name", ["multi-head", "rotary", "single-head"])
def test_a_mechanism_with_projections_is_refused_in_one_sentence(name):
    with pytest.raises(InputError, match=rf"^{name} projects its inputs .* one of dot, scaled-dot"):
        prepare(_request(mechanism=name, dim=3))


def test_vectors_too_large_to_compare_are_refused(tmp_path):
    path = tmp_path / "large.txt"
    path.write_text("a 1e200\n", encoding="utf-8")
    with pytest.raises(NotFiniteError, match="a score is too large for"):
        prepare(_request("a a", vectors=path))


def test_the_record_is_json_of_the_asked_rows():
    lesson = prepare(_request(query="爱", mask="causal"))
    read = json.loads(json.dumps(record(lesson)))
    assert read["queries"] == [{"position": 2, "word": "爱"}]
    assert read["words"] == ["我", "爱", "中国"]
    assert read["weights"] == lesson.steps.weights[[1]].tolist()
    assert read["seen"] == [[True, True, False]]
    assert read["context"] == lesson.steps.context[[1]].tolist()
