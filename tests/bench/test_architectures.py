import pytest
import torch
from bench.architectures.compare import compare
from bench.architectures.mixing import find_mixing
from bench.architectures.recorder import Recorder
from bench.architectures.subject import survey_class
from bench.architectures.subset import QUICK
from torch import nn


class Attention(nn.Module):
    """Self-attention of one head with a softmax written by hand."""

    def forward(self, x):
        return (x @ x.mT / 2).softmax(-1) @ x


class HiddenAttention(nn.Module):
    """Attention that torch functions do not show: it runs with the watcher's modes off."""

    def forward(self, x):
        with torch._C.DisableTorchFunction():
            return (x @ x.mT / 2).softmax(-1) @ x


class RunningSum(nn.Module):
    """Mixes positions without a softmax, weighted by the input."""

    def forward(self, x):
        return (x * x.sigmoid()).cumsum(1)


def network(*modules):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), *modules).eval(), torch.randn(2, 11, 8)


def test_the_recorder_sees_a_softmax_that_is_used_in_a_product():
    model, x = network(Attention())
    with torch.no_grad(), Recorder(model) as recorder:
        model(x)
    assert [(call.site, tuple(call.weights.shape)) for call in recorder.calls] == [
        ("1", (2, 11, 11))
    ]


def test_the_recorder_leaves_the_softmax_of_a_classifier_out():
    model, x = network(nn.Softmax(-1))
    with torch.no_grad(), Recorder(model) as recorder:
        model(x)
    assert recorder.calls == []


def test_the_recorder_computes_the_weights_of_fused_attention():
    query, key, value = torch.randn(3, 2, 4, 7, 8)
    with torch.no_grad(), Recorder(nn.Identity()) as recorder:
        nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    scores = (query @ key.mT / 8**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(recorder.calls[0].weights.float(), scores.softmax(-1))


def test_attention_that_is_watched_is_exact():
    model, x = network(Attention())
    assert compare(model, lambda: model(x), 2, perturb=True).verdict == "exact"


def test_attention_that_is_hidden_from_the_watcher_is_a_silent_miss():
    model, x = network(Attention(), HiddenAttention())
    comparison = compare(model, lambda: model(x), 2)
    assert comparison.verdict == "silent miss"
    assert comparison.missed[0].startswith("2: ")


def test_a_layer_that_mixes_positions_by_other_means_is_reported():
    model, x = network(Attention(), RunningSum())
    assert find_mixing(model, lambda: model(x), ["1"]) == ["2"]


def test_a_convolution_is_no_attention():
    model = nn.Sequential(nn.Conv1d(8, 8, 3, padding=1), nn.ReLU())
    x = torch.randn(2, 8, 11)
    assert find_mixing(model, lambda: model(x), []) == []


def test_a_number_of_traces_other_than_the_batch_is_reported():
    model, x = network(Attention())
    assert compare(model, lambda: model(x), 3).verdict == "wrong trace count"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model_type", "class_name"), QUICK)
def test_a_class_of_each_family_is_exact(model_type, class_name):
    assert survey_class(model_type, class_name, perturb=True)["verdict"] == "exact"
