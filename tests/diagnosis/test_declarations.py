from types import SimpleNamespace

import pytest
import torch

from regard.diagnosis.declarations import by_mechanism, causal_module, writes_alone


class ToyForCausalLM(torch.nn.Module):
    def __init__(self, **config):
        super().__init__()
        self.config = SimpleNamespace(**config)


@pytest.mark.parametrize(
    ("config", "by"),
    [
        ({"kind": "decoder"}, "config.kind"),
        ({"is_decoder": True}, "config.is_decoder"),
        ({"is_encoder_decoder": True, "is_decoder": True}, None),
        ({}, "ToyForCausalLM"),
    ],
)
def test_a_decoder_is_declared_by_its_config_or_its_name(config, by):
    assert writes_alone(ToyForCausalLM(**config)) == by


def test_an_encoder_declares_nothing():
    assert writes_alone(SimpleNamespace(config=SimpleNamespace(kind="encoder"))) is None
    assert writes_alone(None) is None


def test_a_module_that_says_whether_it_is_causal_is_believed():
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
    model["a"].is_causal = True
    assert causal_module(model, "a") is True
    assert causal_module(model, "a#1") is True
    assert causal_module(model, "b") is None
    assert causal_module(model, "gone") is None
    assert causal_module(None, "a") is None


def test_a_mechanism_that_is_meant_to_be_hard_is_known():
    config = SimpleNamespace(attention="additive + hard")
    assert by_mechanism(config, "hard")
    assert not by_mechanism(config, "partial")
    assert not by_mechanism(None, "hard")
