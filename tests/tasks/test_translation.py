"""`translate` gives what generation gives, with the attention between source and translation."""

import pytest

import regard
from regard.errors import InputError
from tasks.tiny_models import a_classifier


@pytest.fixture(scope="module")
def model():
    return regard.load("en-zh-transformer", device="cpu")


def test_a_translation_has_its_score_and_the_trace_of_its_words(model):
    result = regard.translate("I love you", model)
    assert (result.answer, result.task) == ("我爱你", "translation")
    assert result.score < 0
    cross = result.trace.of("cross")[-1]
    produced = result.trace.tokens(cross.produced)
    assert "".join(produced.texts).replace("▁", "").startswith("我爱你")


def test_the_scores_are_those_of_generation_best_first(model):
    result = regard.translate("I love you", model, num_beams=3, num_return_sequences=3)
    ids = [model.tokenizer.encode("I love you")]
    scores = model.model.generate(ids, num_beams=3, num_return_sequences=3).scores.tolist()
    assert [each.score for each in result.candidates] == pytest.approx(scores)
    assert result.to_json()["alternatives"][0]["score"] == pytest.approx(scores[1])


def test_a_list_gives_a_list_in_order(model):
    results = regard.translate(["I love you", "Hello!"], model, trace=False)
    assert [result.inputs["text"] for result in results] == ["I love you", "Hello!"]
    assert results[0].to_json()["translation"] == "我爱你"


def test_the_picture_is_that_of_the_cross_attention(model):
    assert "cross" in repr(regard.view(regard.translate("I love you", model)))


def test_the_shipped_translator_is_the_default():
    assert regard.translate("I love you", device="cpu", trace=False).model == "en-zh-transformer"


def test_a_model_that_does_not_translate_and_a_long_text_are_refused(model):
    with pytest.raises(InputError, match="is no translator that regard's own classes load"):
        regard.translate("I love you", a_classifier())
    with pytest.raises(InputError, match="expected at most 1,024 tokens, its context"):
        regard.translate("love " * 2000, model)
