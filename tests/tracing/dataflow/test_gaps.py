"""What attends and cannot be mapped is named: no map is better than a wrong one."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.kernels.observe.taps import Tapped, register_tap
from regard.tracing.dataflow.gaps import Gaps, _attends
from tracing import written

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]


def ids():
    return torch.randint(0, written.VOCABULARY, (written.BATCH, written.LENGTH))


def watched(*layers):
    model = nn.Sequential(nn.Embedding(written.VOCABULARY, written.WIDTH), *layers)
    with regard.watch(model) as seen:
        model(ids())
    return seen[0]


@pytest.mark.parametrize("globally", [False, True])
@torch.no_grad()
def test_tokens_that_were_rearranged_have_maps_and_no_gaps(globally):
    model, feed = strangers.model("longformer"), strangers.inputs("longformer")
    if globally:
        feed["global_attention_mask"] = torch.zeros_like(feed["input_ids"])
        feed["global_attention_mask"][:, 0] = 1
    with regard.watch(model) as seen:
        model(**feed)
    assert not seen[0].gaps
    sites = list(dict.fromkeys(each.site.partition("#")[0] for each in seen[0].maps))
    assert sites == ["encoder.layer.0.attention.self", "encoder.layer.1.attention.self"]


class Channels(nn.Module):
    """Channels look at channels (El-Nouby et al. 2021)."""

    def forward(self, x):
        return ((x.mT @ x).softmax(-1) @ x.mT).mT


class Rolled(nn.Module):
    def forward(self, x):
        return (x @ x.mT).roll(1, dims=-1).softmax(-1) @ x


@pytest.mark.parametrize("layer", [Channels, Rolled])
def test_columns_that_are_not_keys_make_no_map(layer):
    trace = watched(layer())
    assert not trace.maps
    assert [each.site for each in trace.gaps] == ["1"]


class Plain(nn.Module):
    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x


@pytest.mark.filterwarnings("ignore:.*torch.jit")
@pytest.mark.parametrize("how", ["script", "trace"])
def test_a_scripted_module_that_attends_is_a_gap_and_its_stream_goes_on(how):
    x = torch.randn(written.BATCH, written.LENGTH, written.WIDTH)
    module = torch.jit.script(Plain()) if how == "script" else torch.jit.trace(Plain(), x)
    trace = watched(module, Plain())
    assert [each.site for each in trace.maps] == ["2"]
    assert [each.site for each in trace.gaps] == ["1"]
    assert "scripted" in trace.gaps[0].reason


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_scripted_module_without_attention_is_no_gap():
    trace = watched(torch.jit.script(nn.GELU()), Plain())
    assert not trace.gaps


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_scripted_model_has_gaps_only_and_no_hooks_afterwards():
    with regard.watch(model := torch.jit.script(Plain())) as seen:
        model(torch.randn(written.BATCH, written.LENGTH, written.WIDTH))
    assert [each.site for each in seen[0].gaps] == ["Plain"]
    assert not model._forward_hooks


@torch.library.custom_op("regard_tests::attend", mutates_args=())
def custom(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT).softmax(-1) @ v


@torch.library.custom_op("regard_tests::double", mutates_args=())
def double(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * scale


class Custom(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        return self.how(x, x, x)


@pytest.mark.parametrize(
    "how",
    [custom, torch.ops.regard_tests.attend, torch.ops.regard_tests.attend.default],
    ids=["function", "packet", "overload"],
)
def test_an_operation_of_one_s_own_is_a_gap(how):
    trace = watched(Custom(how), Plain())
    assert [each.site for each in trace.maps] == ["2"]
    assert [each.site for each in trace.gaps] == ["1"]
    assert "regard_tests::attend" in trace.gaps[0].reason


def test_an_operation_on_one_stream_is_no_gap():
    trace = watched(Custom(lambda x, *_: double(x, torch.ones(1))), Plain())
    assert not trace.gaps


def test_an_operation_with_a_tap_is_a_map():
    def describe(q, k, v):
        four = (side[:, None] for side in (q, k, v))
        weights = (q @ k.mT).softmax(-1)[:, None]
        return Tapped(*four, lambda context: context[:, 0], weights=weights)

    @torch.library.custom_op("regard_tests::tapped", mutates_args=())
    def tapped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT).softmax(-1) @ v

    register_tap(torch.ops.regard_tests.tapped.default, describe)
    trace = watched(Custom(tapped))
    assert [each.site for each in trace.maps] == ["1"]
    assert not trace.gaps


def test_a_site_is_named_once():
    gaps = Gaps()
    gaps.add("h.0", "for one reason")
    gaps.add("h.0", "for another")
    assert [(each.site, each.reason) for each in gaps.found] == [("h.0", "for one reason")]


def test_windows_of_a_stream_are_maps_and_no_gap():
    class Windows(nn.Module):
        def forward(self, x):
            x = F.pad(x, (0, 0, 0, 1)).reshape(-1, 4, written.WIDTH)
            return (x @ x.mT).softmax(-1) @ x

    trace = watched(Windows())
    assert len(trace.maps) == 2
    assert not trace.gaps


def test_the_graph_of_a_scripted_module_is_searched_in_no_time():
    line = "%weights : Tensor = aten::softmax(%scores, %dim)\n"
    assert not _attends(line * 20_000)
    assert _attends(line * 20_000 + "%context = aten::bmm(%weights, %value)")
    assert _attends("aten::scaled_dot_product_attention")
