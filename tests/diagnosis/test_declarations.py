from types import SimpleNamespace

import pytest
import torch

from regard.diagnosis.declarations import (
    causal_module,
    declared_row_sum,
    declares,
    writes_alone,
)
from regard.models import Recurrent


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


def test_a_mechanism_that_is_meant_to_be_hard_declares_it():
    model = Recurrent(vocab=11, d_embed=3, hidden=6, attention="additive + hard")
    assert declares(model, "hard")
    assert not declares(model, "partial")
    assert not declares(None, "hard")
    assert not declares(Recurrent(vocab=11, d_embed=3, hidden=6, attention="additive"), "hard")


def test_a_mechanism_whose_rows_sum_to_less_than_one_declares_it():
    model = Recurrent(vocab=11, d_embed=3, hidden=6, attention="general + local-p")
    assert declares(model, "partial")
    assert declared_row_sum(model) == "at most one"
    assert declared_row_sum(None) == declared_row_sum(torch.nn.Linear(2, 2)) == "one"


def test_any_module_may_declare_that_its_rows_sum_to_anything():
    model = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 2), "b": torch.nn.Linear(2, 2)})
    model["a"].row_sum, model["b"].row_sum = "any", "at most one"
    assert declared_row_sum(model) == "any"
    assert declares(model, "partial")
