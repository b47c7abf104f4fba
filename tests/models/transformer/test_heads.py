import pytest
import torch

import regard
from models.transformer.cases import SMALL, VOCAB, inputs
from regard.models import Transformer, TransformerConfig

ROWS, LENGTH, LABELS = 3, 7, 5


def encoder(**settings) -> Transformer:
    return Transformer(TransformerConfig.preset("bert", **SMALL, **settings)).eval()


def test_an_encoder_without_a_head_gives_hidden_states():
    model = encoder(pooler=True)
    ids, marks = inputs(model, ROWS, LENGTH)
    hidden = model(ids, attention_mask=marks)
    assert hidden.shape == (ROWS, LENGTH, 24)
    assert model.pooler(hidden).shape == (ROWS, 24)


def test_token_types_count():
    model = encoder()
    ids, _ = inputs(model, ROWS, LENGTH)
    types = (torch.arange(LENGTH) > 3).long().expand(ROWS, -1)
    torch.testing.assert_close(model(ids), model(ids, token_type_ids=torch.zeros_like(ids)))
    assert not torch.allclose(model(ids), model(ids, token_type_ids=types))


@pytest.mark.parametrize("pooling", ["attentive", "first", "pooler"])
def test_a_text_is_classified_whatever_padding_follows_it(pooling):
    model = encoder(head="classes", labels=LABELS, pooling=pooling)
    ids, marks = inputs(model, ROWS, LENGTH)
    logits = model(ids, attention_mask=marks)
    assert logits.shape == (ROWS, LABELS)
    torch.testing.assert_close(logits[2:], model(ids[2:, :3]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("pooling", ["attentive", "first", "pooler"])
def test_a_classifier_runs_in_bfloat16_by_autocast(pooling):
    model = encoder(head="classes", labels=LABELS, pooling=pooling)
    ids, marks = inputs(model, ROWS, LENGTH)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(ids, attention_mask=marks)
    expected = model(ids, attention_mask=marks)
    torch.testing.assert_close(logits.float(), expected, atol=0.03, rtol=0.05)


def test_attentive_pooling_is_watched():
    model = encoder(head="classes", labels=LABELS)
    ids, marks = inputs(model, ROWS, LENGTH)
    with regard.watch(model) as seen:
        model(ids, attention_mask=marks)
    pooled = next(each for each in seen[2].maps if each.site == "head.attentive")
    assert pooled.weights().shape[-2:] == (1, 3)


def test_a_decoder_can_classify_too():
    model = Transformer(TransformerConfig.preset("gpt2", **SMALL, head="classes", labels=LABELS))
    assert model(torch.ones(ROWS, LENGTH).long()).shape == (ROWS, LABELS)


def test_an_answer_has_a_start_and_an_end():
    model = encoder(head="spans")
    assert model(inputs(model, ROWS, LENGTH)[0]).shape == (ROWS, LENGTH, 2)


def test_masked_words_are_guessed():
    model = encoder(head="language", head_transform=True, output_bias=True)
    assert model(inputs(model, ROWS, LENGTH)[0]).shape == (ROWS, LENGTH, VOCAB)
    assert model.head.output.weight is model.encoder.token_embedding().weight
