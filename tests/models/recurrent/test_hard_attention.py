"""Hard attention in training: what REINFORCE needs."""

import pytest
import torch

from models.recurrent.variants import BATCH, TARGET, batch, built
from regard.errors import InputError


@pytest.mark.parametrize("name", ["bahdanau hard", "luong hard", "bahdanau straight-through"])
def test_sampled_attention_when_evaluating_has_the_logits_of_forward(name):
    model, (source, written, mask) = built(name), batch()
    logits, log_probability = model.sample_attention(source, written, attention_mask=mask)
    torch.testing.assert_close(logits, model(source, written, attention_mask=mask))
    assert log_probability.shape == (BATCH, TARGET)
    assert (log_probability <= 0).all()


def test_attention_is_drawn_while_training():
    model, (source, written, _) = built("luong hard").train(), batch()
    drawn = {model.sample_attention(source, written).log_probability.sum().item() for _ in range(7)}
    assert len(drawn) > 1


def test_only_the_log_probability_trains_the_scores():
    model, (source, written, _) = built("luong hard").train(), batch()
    logits, log_probability = model.sample_attention(source, written)
    weight = model.reader.mechanism.score.W
    assert torch.autograd.grad(logits.sum(), weight, allow_unused=True, retain_graph=True) == (
        None,
    )
    assert (torch.autograd.grad(log_probability.sum(), weight)[0] != 0).any()


def test_the_only_key_is_chosen_for_sure():
    model, (source, written, _) = built("bahdanau hard").train(), batch()
    log_probability = model.sample_attention(source[:, :1], written).log_probability
    assert (log_probability == 0).all()
    assert (model.sample_attention(source, written).log_probability < 0).all()


@pytest.mark.parametrize("name", ["bahdanau none", "bahdanau gru", "bahdanau multi-head"])
def test_sampling_attention_needs_hard_attention(name):
    model, (source, written, _) = built(name), batch()
    with pytest.raises(InputError, match=r"attention|Hard"):
        model.sample_attention(source, written)


@pytest.mark.parametrize("name", ["bahdanau gru", "luong scaled-dot tied"])
def test_features_through_the_projection_are_the_logits(name):
    model, (source, written, mask) = built(name), batch()
    features = model.features(source, written, attention_mask=mask)
    logits = torch.nn.functional.linear(features, *model.projection)
    torch.testing.assert_close(logits, model(source, written, attention_mask=mask))
