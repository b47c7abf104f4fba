"""Shipped classifiers are shaded by occlusion: of words, or of the sentences of a long text."""

from dataclasses import replace

import pytest
import torch

import regard
from regard.attribution import occlusion
from regard.tasks import evidence
from regard.tasks.evidence import evidence_weights, occlude_parts
from tasks.tiny_models import a_classifier

TEXT = "I love playing chess."


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(evidence, "EXPLAINED_MODELS", ("tiny",))
    return replace(a_classifier())


def test_a_short_text_has_the_effects_of_its_words(model):
    result = regard.classify(TEXT, model)
    found = result.evidence.attribution
    expected = occlusion(model.model, model.processor, TEXT)
    assert found.method == "occlusion"
    for unit, effect in zip(expected.units, expected.effect.tolist(), strict=True):
        assert float(found.values[list(unit)].sum()) == pytest.approx(effect, abs=1e-6)
    assert found.values.isnan().nonzero()[:, 0].tolist() == [0, len(found.tokens) - 1]


def test_a_long_text_has_the_effects_of_its_sentences(model):
    text = "I love you. I love chess. I love football."
    found = occlude_parts(model, text, by_words=False)
    assert found.method == "sentence-occlusion"
    assert len(set(found.values[1:-1].tolist())) == 3
    whole = occlude_parts(model, "I love you", by_words=False)  # one part, and nothing is left
    assert len(set(whole.values[1:-1].tolist())) == 1


def test_many_short_sentences_are_joined():
    parts = evidence._sentences(["a", "."] * 100)
    assert len(parts) <= evidence._MOST_PARTS
    assert [number for part in parts for number in part] == list(range(200))


def test_the_picture_shades_what_speaks_for_the_class_and_names_the_method(model):
    result = regard.classify(TEXT, model)
    weights = evidence_weights(result)
    words = regard.view(result).numbers.words
    shares = torch.tensor([word.weight for word in words])
    assert float(shares.sum()) == pytest.approx(float(weights.sum() > 0), abs=1e-4)
    assert "occlusion" in regard.view(result).scene.title
    assert "遮挡法" in regard.view(result, language="zh").scene.title


def test_other_models_are_shaded_by_attention():
    result = regard.classify(TEXT, a_classifier())
    assert result.evidence.attribution is None
    last = result.trace[result.evidence.site].weights().mean(0)[0]
    torch.testing.assert_close(evidence_weights(result), last.double())
