"""Models on tensors without numbers, and models that are traced: run as if nobody watched."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import regard
from regard.errors import InputError
from regard.tracing import Keep, knock_out
from regard.tracing.readable import UNREADABLE, are_readable, detach_untraced

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import transformers as hf

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.usefixtures("unchecked"),
]

BATCH, LENGTH, WIDTH = 3, 5, 12


class ByHand(nn.Module):
    """Two heads, with weights from a product and a softmax."""

    def forward(self, x):
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        weights = (heads @ heads.mT).softmax(-1)
        return (weights @ heads).transpose(1, 2).flatten(2)


class Masked(nn.Module):
    """scaled_dot_product_attention with a dense mask."""

    def forward(self, x):
        mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool, device=x.device).tril()
        return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], mask)[:, 0]


class Embedded(nn.Module):
    """A decoder of transformers that starts from vectors."""

    def __init__(self, attention):
        super().__init__()
        sizes = {"hidden_size": WIDTH, "num_attention_heads": 2, "num_key_value_heads": 1}
        config = hf.LlamaConfig(**sizes, num_hidden_layers=1, intermediate_size=7, vocab_size=11)
        config._attn_implementation = attention
        self.decoder = hf.LlamaModel(config)

    def forward(self, x):
        return self.decoder(inputs_embeds=x).last_hidden_state


MODELS = {
    "hand": ByHand,
    "masked": Masked,
    "torch": lambda: nn.TransformerEncoderLayer(WIDTH, 2, 7, batch_first=True),
    "sdpa": lambda: Embedded("sdpa"),
    "eager": lambda: Embedded("eager"),
}


def run_fake(model, x):
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        return model(mode.from_tensor(x))


def run_on_meta(model, x):
    with torch.device("meta"):
        return model.to("meta")(x.to("meta"))


def run_vmap(model, x):
    return torch.vmap(lambda example: model(example[None])[0])(x)


def run_grad(model, x):
    return torch.func.grad(lambda x: model(x).square().sum())(x)


def run_functionalize(model, x):
    return torch.func.functionalize(model)(x)


WAYS = [run_fake, run_on_meta, run_vmap, run_grad, run_functionalize]


@pytest.mark.parametrize("run", WAYS, ids=lambda run: run.__name__)
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_unwatched_model_and_the_calls_are_gaps(name, run):
    model, x = MODELS[name]().eval(), torch.randn(BATCH, LENGTH, WIDTH)
    alone = run(model, x)
    with regard.watch(model) as seen:
        watched = run(model, x)
    assert type(watched) is type(alone)
    assert watched.shape == alone.shape
    if are_readable([alone]):
        torch.testing.assert_close(watched, alone, rtol=1e-5, atol=1e-6)
    assert not seen[0].maps
    assert {gap.reason for gap in seen[0].gaps} == {UNREADABLE}


@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "real") for name in MODELS), ("hand", "fake"), ("sdpa", "symbolic")]
)
def test_the_graph_of_make_fx_is_that_of_the_unwatched_model(name, mode):
    model, x = MODELS[name]().eval(), torch.randn(BATCH, LENGTH, WIDTH)
    trace = make_fx(model, tracing_mode=mode, _allow_non_fake_inputs=True)
    alone = trace(x).code
    with regard.watch(model) as seen:
        watched = trace(x).code
    assert watched == alone
    assert seen[0].gaps[0].reason == UNREADABLE


def test_a_traced_model_holds_no_numbers_of_the_example():
    model, x = Masked(), torch.randn(BATCH, LENGTH, WIDTH)
    with regard.watch(model) as seen:
        traced = torch.jit.trace(model, x, check_trace=False)
    torch.testing.assert_close(traced(2 * x), model(2 * x))
    assert seen[0].gaps[0].reason == UNREADABLE


def test_a_plain_run_in_the_same_block_is_recorded_beside_the_gap():
    model, x = Masked(), torch.randn(BATCH, LENGTH, WIDTH)
    with regard.watch(model) as alone:
        model(x)
    with regard.watch(model) as seen, regard.watch(model) as inner:
        run_fake(model, x)
        model(x)
    for traces in (seen, inner):
        assert torch.equal(traces[0].maps[0].weights(), alone[0].maps[0].weights())
        assert len(traces[0].gaps) == 1


@pytest.mark.parametrize("name", ["hand", "masked"])
def test_an_edit_of_a_call_without_numbers_gets_its_sentence(name):
    model, x = MODELS[name](), torch.randn(BATCH, LENGTH, WIDTH)
    with (
        pytest.raises(InputError, match="cannot be edited: its tensors have no numbers"),
        regard.watch(model, edit=knock_out("*", [0])),
    ):
        run_vmap(model, x)


def test_ids_that_are_embedded_inside_vmap_are_no_fault_of_ours():
    embed, model = nn.Embedding(31, WIDTH), ByHand()
    model.embed = embed
    ids = torch.randint(31, (BATCH, LENGTH))
    with regard.watch(model) as seen:
        torch.vmap(lambda row: model(embed(row)[None])[0])(ids)
    assert {gap.reason for gap in seen[0].gaps} == {UNREADABLE}


def test_values_of_a_call_without_numbers_are_not_looked_for():
    model, x = MODELS["hand"](), torch.randn(BATCH, LENGTH, WIDTH)
    with regard.watch(model, keep=Keep(values=True, outputs=True, gradients=True)) as seen:
        run_fake(model, x)
    assert seen[0].gaps


def test_a_tensor_is_not_detached_where_the_operation_would_be_traced():
    x = torch.zeros(3, requires_grad=True)
    assert not detach_untraced(x).requires_grad
    graph = make_fx(lambda x: detach_untraced(x) + 1)(x)
    assert "detach" not in graph.code
