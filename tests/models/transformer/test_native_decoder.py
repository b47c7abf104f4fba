import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

import regard
from models.transformer.cases import WRITERS, inputs, small, written
from regard.attention import catalog
from regard.models.transformer import native_decoder
from regard.models.transformer.kv_cache import TransformerState
from regard.models.transformer.native_decoder import NativeDecoderState

ROWS, LENGTH = 3, 11
CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(params=["native", "torch"])
def way(request, monkeypatch):
    """With the native step, where it is built, and without."""
    if request.param == "torch":
        monkeypatch.setattr(
            native_decoder.NativeStep, "build_if_supported", staticmethod(lambda *_: None)
        )
    return request.param


def begun(model):
    """A state that has read nothing, what there is to read, and the logits of one pass."""
    if model.reads_source:
        ids, marks = inputs(model, ROWS, 7)
        target = written(model, ROWS, LENGTH)
        return model.begin(ids, marks), target, model(ids, target, attention_mask=marks)
    ids, marks = inputs(model, ROWS, LENGTH, side="left")
    return model.begin(ids[:, :5], marks[:, :5]), ids, model(ids, attention_mask=marks)


@pytest.mark.parametrize("name", WRITERS)
def test_steps_without_detours_give_what_one_pass_gives(way, name):
    model = small(name)
    state, target, whole = begun(model)
    assert isinstance(state, NativeDecoderState)
    for start, stop in ((0, 5), (5, 6), (6, 7), (7, 9), (9, 10)):
        logits, state = model.step(state, target[:, start:stop])
        torch.testing.assert_close(logits, whole[:, stop - 1], **CLOSE)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu-tanh", "silu"])
@pytest.mark.parametrize("gated", [False, True])
def test_every_activation_is_that_of_the_layers(way, activation, gated):
    model = small("gpt2", activation=activation, gated=gated)
    state, target, whole = begun(model)
    _, state = model.step(state, target[:, :5])
    logits, _ = model.step(state, target[:, 5:6])
    torch.testing.assert_close(logits, whole[:, 5], **CLOSE)


@pytest.mark.parametrize("name", ["vaswani", "llama"])
def test_rows_may_be_many_few_and_many_again(name):
    model = small(name)
    state, target, whole = begun(model)
    _, state = model.step(state, target[:, :5])
    rows = torch.arange(ROWS).repeat_interleave(7)
    for chosen in (rows, torch.tensor([0, 7, 14]), torch.arange(ROWS).repeat_interleave(9)):
        state = state.select(chosen)
        assert state.rows == len(chosen)
        for stop in (6,):
            logits, _ = model.step(state, target[:, 5:6].repeat_interleave(state.rows // 3, dim=0))
            expected = whole[:, stop - 1].repeat_interleave(state.rows // 3, dim=0)
            torch.testing.assert_close(logits, expected, **CLOSE)


def test_a_long_text_is_read_on_several_threads():
    model = small("llama", max_positions=700, d_model=192, d_ff=97)
    ids = torch.randint(101, (2, 601))
    state = model.begin(ids[:, :599])
    _, state = model.step(state, ids[:, :599])
    _, state = model.step(state, ids[:, 599:600])
    logits, _ = model.step(state, ids[:, 600:])
    torch.testing.assert_close(logits, model(ids)[:, -1], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_are_read_without_the_native_step(dtype):
    model = small("marian").to(dtype)
    state, target, whole = begun(model)
    assert state.parameters.native_step is None
    _, state = model.step(state, target[:, :5])
    logits, _ = model.step(state, target[:, 5:6])
    loose = {"atol": 0.1, "rtol": 0.1} if dtype == torch.bfloat16 else CLOSE
    torch.testing.assert_close(logits, whole[:, 5], **loose)


@pytest.mark.parametrize(
    "name",
    [name for name in catalog if name not in ("local-p", "co-attention", "copy", "coverage")],
)
def test_a_mechanism_that_is_not_plain_is_read_by_the_layers(name):
    state, _, _ = begun(small("gpt2", attention=name))
    plain = {"scaled-dot", "rotary", "single-head", "multi-head", "grouped-query", "multi-query"}
    assert isinstance(state, NativeDecoderState) == (name in plain)


def test_who_listens_to_a_module_hears_it():
    model, heard = small("vaswani"), []
    model.decoder.layers[1].cross.w_q.register_forward_hook(lambda *_: heard.append(1))
    state, target, _ = begun(model)
    model.step(state, target[:, :1])
    assert isinstance(state, TransformerState)
    assert heard


def test_who_watches_sees_every_step_though_it_began_unseen():
    model = small("gpt2")
    state, target, whole = begun(model)
    _, state = model.step(state, target[:, :5])
    with regard.watch(model) as seen:
        logits, state = model.step(state, target[:, 5:6])
    torch.testing.assert_close(logits, whole[:, 5], **CLOSE)
    assert isinstance(state, TransformerState)
    assert len(seen) == ROWS


def test_another_kind_of_layer_in_place_of_one_is_asked():
    class Doubling(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = small("vaswani")
    old = model.decoder.layers[0].feed_forward.up
    model.decoder.layers[0].feed_forward.up = Doubling(old.in_features, old.out_features)
    assert isinstance(begun(model)[0], TransformerState)


def test_weights_that_change_are_read_anew():
    model = small("gpt2")
    for _ in range(2):
        state, target, whole = begun(model)
        logits, _ = model.step(state, target[:, :5])
        torch.testing.assert_close(logits, whole[:, 4], **CLOSE)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.5)


def test_two_texts_are_written_in_turns_without_a_mix():
    model = small("vaswani")
    (one, target, whole), (two, other, total) = begun(model), begun(model)
    for place in range(4):
        token = slice(place, place + 1)
        logits, one = model.step(one, target[:, token])
        torch.testing.assert_close(logits, whole[:, place], **CLOSE)
        logits, two = model.step(two, other[:, token])
        torch.testing.assert_close(logits, total[:, place], **CLOSE)


def test_nan_is_not_hidden(way):
    model = small("vaswani")
    with torch.no_grad():
        model.decoder.layers[0].attention.w_o.bias[0] = torch.nan
    state = model.begin(torch.tensor([[3, 5]]))
    logits, _ = model.step(state, torch.tensor([[7]]))
    assert logits.isnan().all()


def test_training_reads_by_the_layers():
    model = small("vaswani").train()
    assert isinstance(begun(model)[0], TransformerState)


def test_tokens_without_memory_are_left_to_the_layers():
    tokens = torch.zeros(2, 3, dtype=torch.long)
    assert not native_decoder.is_observed(tokens)
    assert native_decoder.is_observed(tokens.to("meta"))
    with FakeTensorMode():
        assert native_decoder.is_observed(tokens)
