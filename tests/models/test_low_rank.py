"""Low-rank differences: no change at first, little is trained, and merging changes nothing."""

import pytest
import torch
from torch import nn

from models.transformer.cases import encoder
from regard.errors import InputError
from regard.models.low_rank import LowRankLinear, add_low_rank, merge_low_rank

IDS = torch.tensor([[5, 7, 11, 13], [17, 19, 23, 29]])


@pytest.fixture
def adapted():
    model = encoder(head="classes").eval()
    add_low_rank(model, 3, frozen=1)
    return model


def disturb(model):
    """Give each difference some weights, as training would."""
    for module in model.modules():
        if isinstance(module, LowRankLinear):
            nn.init.normal_(module.up, std=0.1)


def test_at_first_the_model_computes_what_it_did():
    model = encoder(head="classes").eval()
    before = model(IDS)
    add_low_rank(model, 3)
    assert torch.equal(model(IDS), before)


def test_embeddings_frozen_layers_and_large_matrices_are_not_trained(adapted):
    adapted(IDS).sum().backward()
    trained = {name for name, each in adapted.named_parameters() if each.grad is not None}
    assert not any(name.startswith(("encoder.embeddings", "encoder.layers.0")) for name in trained)
    inner = {name for name in trained if name.startswith("encoder.layers.1")}
    assert {name.rpartition(".")[2] for name in inner} == {"down", "up", "bias", "weight"}
    assert all("norm" in name for name in inner if name.endswith(".weight"))
    assert "head.output.weight" in trained


def test_merging_changes_no_output(adapted):
    disturb(adapted)
    before = adapted(IDS)
    merge_low_rank(adapted)
    assert not any(isinstance(each, LowRankLinear) for each in adapted.modules())
    torch.testing.assert_close(adapted(IDS), before, rtol=1e-5, atol=1e-6)


def test_a_layer_is_the_frozen_one_plus_the_product_of_the_factors():
    layer = LowRankLinear(nn.Linear(5, 7), 2)
    nn.init.normal_(layer.up)
    x = torch.randn(3, 5)
    expected = x @ (layer.weight + layer.up @ layer.down).T + layer.bias
    torch.testing.assert_close(layer(x), expected)


def test_more_frozen_layers_than_there_are_is_refused():
    with pytest.raises(InputError, match=r"plan\.frozen expected fewer layers than the 2"):
        add_low_rank(encoder(head="classes"), 3, frozen=2)


def test_another_class_of_model_is_refused():
    with pytest.raises(InputError, match=r"plan\.rank is for a Transformer, got a Linear"):
        add_low_rank(nn.Linear(3, 5), 2)
