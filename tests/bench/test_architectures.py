import pytest
import torch
from bench.architectures.compare import Comparison, compare, look_for_calls
from bench.architectures.matching import MapIndex
from bench.architectures.mixing import find_mixing
from bench.architectures.recorder import Recorder
from bench.architectures.subject import survey_class
from bench.architectures.subset import QUICK
from bench.architectures.table import summarise
from torch import nn

import regard


class Attention(nn.Module):
    """Self-attention of one head with a softmax written by hand."""

    def forward(self, x):
        return (x @ x.mT / 2).softmax(-1) @ x


class Heads(nn.Module):
    """Self-attention of four heads."""

    def forward(self, x):
        heads = x.unflatten(-1, (4, 2)).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads)


class HiddenAttention(nn.Module):
    """Attention that torch functions do not show: it runs with the watcher's modes off."""

    def forward(self, x):
        with torch._C.DisableTorchFunction():
            return (x @ x.mT / 2).softmax(-1) @ x


class RunningSum(nn.Module):
    """Mixes positions without a softmax, weighted by the input."""

    def forward(self, x):
        return (x * x.sigmoid()).cumsum(1)


class SqueezeAndExcite(nn.Module):
    """Scales features by their averages over all positions."""

    def forward(self, x):
        return x * x.mean(1, keepdim=True).sigmoid()


class Standardise(nn.Module):
    """Subtracts a mean and divides by a scale, both summed over positions by hand."""

    def forward(self, x):
        seen = (x > -9).to(x)
        mean = (x * seen).sum(1, keepdim=True) / seen.sum(1, keepdim=True)
        scale = (((x - mean) * seen) ** 2).sum(1, keepdim=True) / seen.sum(1, keepdim=True)
        return (x - mean) / (scale + 1e-5).sqrt()


class Similarities(nn.Module):
    """Compares each position with some others, and returns the scores, padded to a size."""

    def forward(self, x):
        return nn.functional.pad(x @ x[:, :7].mT, (0, 9), value=-torch.inf)


class NearlyUniform(nn.Module):
    """Attention whose weights are almost alike, beside a residual stream, which torch hides."""

    def forward(self, x):
        with torch._C.DisableTorchFunction():
            return x + (x @ x.mT / 1000).softmax(-1) @ x / 50


class PositionMixer(nn.Module):
    """Mixes positions by a parameter, as MLP mixers do, and gates the result."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(11, 11))

    def forward(self, x):
        return x.sigmoid() * (self.weight @ x)


class Fourier(nn.Module):
    """A Fourier transform over positions."""

    def forward(self, x):
        return torch.fft.fft(x, dim=1).real * x


class Recurrence(nn.Module):
    """A state that forgets by content."""

    def forward(self, x):
        states = [x[:, 0]]
        for step in range(1, x.shape[1]):
            states.append(states[-1] * x[:, step].sigmoid() + x[:, step])
        return torch.stack(states, 1)


class LinearAttention(nn.Module):
    """Attention without a softmax."""

    def forward(self, x):
        return x @ (x.mT @ x)


class MixedStreams(nn.Module):
    """A softmax over the streams of one token."""

    def forward(self, x):
        streams = x.unflatten(-1, (4, 2))
        return ((streams @ streams.mT).softmax(-1) @ streams).flatten(-2)


class Core(nn.Module):
    """Attention of queries, keys and values (batch head position feature), hidden from watching."""

    def forward(self, query, key, value):
        with torch._C.DisableTorchFunction():
            return (query @ key.mT).softmax(-1) @ value


class HiddenHeads(nn.Module):
    """Four heads that attend in a module of their own."""

    def __init__(self):
        super().__init__()
        self.core = Core()

    def forward(self, x):
        heads = x.unflatten(-1, (4, 2)).transpose(1, 2)
        return self.core(heads, 2 * heads, 3 * heads).transpose(1, 2).flatten(-2)


class Windows(nn.Module):
    """Self-attention in windows, which are a batch of their own."""

    def forward(self, x):
        windows = x[:, :10].reshape(-1, 5, x.shape[-1])
        return Attention()(windows)


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
    assert compare(model, lambda: model(x), 2, perturb=lambda: model(x)).verdict == "exact"


def test_attention_that_is_hidden_from_the_watcher_is_a_silent_miss():
    model, x = network(Attention(), HiddenAttention())
    comparison = compare(model, lambda: model(x), 2)
    assert comparison.verdict == "silent miss"
    assert comparison.missed[0].startswith("2: ")


def test_a_layer_that_mixes_positions_by_other_means_is_reported():
    model, x = network(Attention(), RunningSum())
    assert find_mixing(model, lambda: model(x), ["1"]).unseen == ["2"]


def test_a_convolution_is_no_attention():
    model = nn.Sequential(nn.Conv1d(8, 8, 3, padding=1), nn.ReLU())
    x = torch.randn(2, 8, 11)
    assert find_mixing(model, lambda: model(x)).unseen == []


@pytest.mark.parametrize(
    "kind", [LinearAttention, Recurrence, RunningSum, Attention, NearlyUniform]
)
def test_mixing_that_depends_on_content_is_reported(kind):
    model, x = network(kind())
    assert find_mixing(model, lambda: model(x)).unseen == ["1"]


@pytest.mark.parametrize(
    "kind", [SqueezeAndExcite, Standardise, Similarities, PositionMixer, Fourier]
)
def test_mixing_in_a_fixed_pattern_is_no_attention(kind):
    model, x = network(kind())
    assert find_mixing(model, lambda: model(x)).unseen == []


class Selection(nn.Module):
    def __init__(self):
        super().__init__()
        self.select = Selector()

    def forward(self, x):
        return x + 0 * self.select(x)[..., :1]


class Selector(nn.Module):
    def forward(self, x):
        return (x @ x.mT).topk(3, dim=-1).indices


def test_indices_that_a_module_selects_are_no_mixing():
    model, x = network(Selection())
    assert find_mixing(model, lambda: model(x)).unseen == []


def test_a_gap_around_a_module_covers_it():
    model, x = network(nn.Sequential(LinearAttention()))
    assert find_mixing(model, lambda: model(x), gaps=["1"]).unseen == []


def test_a_softmax_over_the_streams_of_one_token_is_no_attention():
    model, x = network(MixedStreams())
    comparison = compare(model, lambda: model(x), 2, perturb=lambda: model(x))
    assert not comparison.recorded


def test_weights_in_the_trace_of_another_example_are_inexact():
    model, x = network(Heads())
    with torch.no_grad(), Recorder(model) as recorder:
        model(x)
    with torch.no_grad(), regard.watch(model) as seen:
        model(x)
    comparison = Comparison(2)
    look_for_calls(recorder.calls, list(seen)[::-1], comparison)
    assert comparison.verdict == "inexact"
    assert comparison.inexact == ["1: the map of example 0 differs"]


def test_a_number_of_traces_other_than_the_batch_is_reported():
    model, x = network(Attention())
    assert compare(model, lambda: model(x), 3).verdict == "wrong trace count"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("model_type", "class_name", "verdict"), QUICK)
def test_a_class_of_each_family_has_its_verdict(model_type, class_name, verdict):
    row = survey_class(model_type, class_name)
    assert row["verdict"] == verdict, row


def test_an_architecture_has_the_worst_verdict_of_its_classes():
    verdicts = {"AModel": "exact", "AForCausalLM": "crash", "B": "named gap", "C": "no attention"}
    rows = [{"type": name[0], "class": name, "verdict": v} for name, v in verdicts.items()]
    lines = summarise(rows).splitlines()
    assert "| exact | 0 | 0.0% | 1 |" in lines
    assert "| crash | 1 | 50.0% | 1 |" in lines
    assert "| **attending** | **2** | | **3** |" in lines


def test_gaps_of_layers_without_weights_are_counted_apart():
    reason = "no weight of one token on another is ever computed"
    runs = {"forward": {"gaps": [f"layer.0: {reason}"]}}
    rows = [{"type": "a", "class": "A", "verdict": "named gap", "runs": runs}]
    rows.append({"type": "b", "class": "B", "verdict": "named gap", "runs": {}})
    lines = summarise(rows).splitlines()
    assert "| named gap | 1 | 50.0% | 1 |" in lines
    assert "| gap of layers without weights, beside exact maps | 1 | 50.0% | 1 |" in lines


def test_maps_of_windows_cover_their_module():
    model, x = network(Windows())
    assert compare(model, lambda: model(x), 2, perturb=lambda: model(x)).mixing == []


def test_heads_before_positions_are_not_taken_for_positions():
    model, x = network(HiddenHeads())
    comparison = compare(model, lambda: model(x), 2, perturb=lambda: model(x))
    assert comparison.verdict == "silent miss"


class Halo(nn.Module):
    """Two blocks of three tokens, each with its neighbours; beyond the ends is padding."""

    def forward(self, x):
        near = nn.functional.pad(x, (0, 0, 1, 1)).unfold(1, 5, 3)
        return (x.unflatten(1, (2, 3)) @ near).softmax(-1) @ near.mT


def test_weights_on_padding_beyond_the_border_may_be_in_no_map():
    model = nn.Sequential(nn.Embedding(11, 5), Halo())
    ids = torch.randint(11, (2, 6))
    comparison = compare(model, lambda: model(ids), 2)
    assert (comparison.verdict, comparison.maps, comparison.missed) == ("exact", 2, [])


class Padding(nn.Module):
    """Texts of different lengths: the keys after the end of each are hidden from all queries."""

    def forward(self, ids):
        x = nn.functional.one_hot(ids, 11).float()[:, None]
        mask = (ids != 0)[:, None, None]
        return nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def test_padding_that_a_model_makes_itself_may_be_in_no_map():
    ids = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 0, 0]])
    model = Padding()
    comparison = compare(model, lambda: model(ids), 2)
    assert (comparison.verdict, comparison.maps, comparison.inexact) == ("exact", 2, [])


def test_means_over_heads_that_a_model_returns_are_in_its_map():
    model, x = network(Heads())
    with torch.no_grad(), regard.watch(model) as seen:
        model(x)
    means = torch.stack([trace.maps[0].weights().mean(0) for trace in seen])
    index = MapIndex(seen)
    assert index.has_means(means[:, None].expand(-1, 4, -1, -1))
    assert not index.has_means(means.mT[:, None].expand(-1, 4, -1, -1))
