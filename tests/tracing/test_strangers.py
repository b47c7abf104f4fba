"""Capture's law: what is seen equals what the model itself returns in eager mode."""

import contextlib
import importlib
import warnings

import pytest
import torch

import regard

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

CASES = [
    (name, padded)
    for name in strangers.MODELS
    for padded in ((None,) if name in strangers.WITHOUT_PADDING else (None, "right", "left"))
]


def outputs(result):
    for name in ("logits", "last_hidden_state"):
        if getattr(result, name, None) is not None:
            return getattr(result, name)
    raise AssertionError(result.keys())


def eager(model, feed):
    """The weights that the model returns itself, layer after layer, by kind."""
    result = strangers.eager(model)(**feed, output_attentions=True)
    if getattr(result, "attentions", None) is not None:
        return {None: result.attentions}
    return {
        "encoder": result.encoder_attentions,
        "decoder": result.decoder_attentions,
        "cross": result.cross_attentions,
    }


def unpadded(weights, real, kind):
    """One example's weights over its real tokens: rows too, where they are the same stream."""
    if weights.shape[2] == len(real):
        weights = weights[:, :, real]
    if kind in (None, "encoder") and weights.shape[1] == len(real):
        weights = weights[:, real]
    return weights


@pytest.mark.parametrize(("name", "padded"), CASES)
@torch.no_grad()
def test_a_stranger_s_weights_are_those_of_its_eager_mode(name, padded):
    model, feed = strangers.model(name), strangers.inputs(name, padded)
    with regard.watch(model) as seen:
        model(**feed)
    assert len(seen) == strangers.BATCH
    assert not seen[0].gaps
    for kind, layers in eager(model, feed).items():
        for example, real in enumerate(strangers.real(padded).bool()):
            maps = seen[example].maps if kind is None else seen[example].of(kind)
            assert len(maps) == len(layers)
            for each, layer in zip(maps, layers, strict=True):
                expected = unpadded(layer[example], real, kind)
                torch.testing.assert_close(each.weights(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "padded"), CASES)
@torch.no_grad()
def test_a_watched_stranger_gives_what_it_gives_alone(name, padded):
    model, feed = strangers.model(name), strangers.inputs(name, padded)
    alone = outputs(model(**feed))
    with regard.watch(model):
        watched = outputs(model(**feed))
    with regard.watch(model, beside=True):
        beside = outputs(model(**feed))
    if padded and name not in strangers.PAIRS:
        rows = strangers.real(padded).bool()  # rows of padding are meaningless in both
        alone, watched, beside = alone[rows], watched[rows], beside[rows]
    torch.testing.assert_close(watched, alone, atol=1e-5, rtol=1e-4)
    assert torch.equal(beside, alone)


@pytest.mark.parametrize("name", [*strangers.DECODERS, "marian", "t5"])
@pytest.mark.parametrize("padded", [None, "left"])
@torch.no_grad()
def test_decoding_with_a_cache_equals_the_teacher_forced_pass(name, padded):
    model, feed = strangers.model(name), {"input_ids": strangers.tokens()}
    feed["attention_mask"] = strangers.real(padded)
    plan = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    alone = model.generate(**feed, **plan)
    with regard.watch(model) as decoded:
        assert torch.equal(model.generate(**feed, **plan), alone)
    with regard.watch(model) as forced:
        model(**teacher(name, feed, alone))
    for one, other in zip(decoded, forced, strict=True):
        for step, whole in zip(one, other, strict=True):
            torch.testing.assert_close(step.weights(), whole.weights(), atol=1e-5, rtol=0)


def teacher(name, feed, generated):
    read = generated[:, :-1]
    if name in strangers.PAIRS:
        return feed | {"decoder_input_ids": read}
    more = torch.ones(len(read), read.shape[1] - strangers.LENGTH, dtype=torch.long)
    real = torch.cat([feed["attention_mask"], more], dim=1)
    return {
        "input_ids": read,
        "attention_mask": real,
        "position_ids": (real.cumsum(-1) - 1).clamp_min(0),
    }


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@torch.no_grad()
def test_windows_of_a_picture_are_parts_of_a_site(implementation):
    model, feed = strangers.model("swin"), strangers.inputs("swin")
    eager, own = strangers.eager(model), {}
    for path, module in eager.named_modules():
        if path.endswith(".attention"):
            module.register_forward_hook(
                # without the option below, transformers 4 returns no weights
                lambda _, __, out, path=path: own.update({path: out[1]} if len(out) > 1 else {})
            )
    eager(**feed, output_attentions=True)
    with regard.watch(watched := model if implementation == "sdpa" else eager) as seen:
        watched(**feed)
    assert len(own) == 4
    for example, trace in enumerate(seen):
        assert len(trace.maps) == sum(len(each) for each in own.values()) // strangers.BATCH
        for each in trace:
            path, _, part = each.site.partition("@")
            path = path.removesuffix(".self")  # the module inside it that transformers 4 has
            count = len(own[path]) // strangers.BATCH
            expected = own[path][example * count + int(part or 0)]
            torch.testing.assert_close(each.weights(), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("padded", [None, "right"])
@torch.no_grad()
def test_two_towers_are_two_streams_of_one_trace(padded):
    model, feed = strangers.model("clip"), strangers.inputs("clip", padded)
    with regard.watch(model) as seen:
        model(**feed)
    own = strangers.eager(model)(**feed, output_attentions=True)
    layers = own.vision_model_output.attentions + own.text_model_output.attentions
    for example, real in enumerate(strangers.real(padded).bool()):
        kinds = [each.kind for each in seen[example]]
        assert kinds == ["encoder"] * 2 + ["decoder"] * 2
        for each, layer in zip(seen[example], layers, strict=True):
            expected = unpadded(layer[example], real, None)
            torch.testing.assert_close(each.weights(), expected, atol=1e-5, rtol=0)


@pytest.fixture
def by_hand(monkeypatch):
    """Nothing is known of anybody's registries: eager mode is attention written by hand."""
    module = importlib.import_module("regard.tracing.open_watchers")
    monkeypatch.setattr(module, "watch_registries", contextlib.nullcontext)


@pytest.mark.parametrize("name", strangers.MODELS)
@pytest.mark.usefixtures("by_hand")
@torch.no_grad()
def test_a_stranger_s_attention_written_by_hand_gives_the_same_maps(name):
    model, feed = strangers.model(name), strangers.inputs(name)
    eager = strangers.eager(model)
    with regard.watch(model) as fused:
        model(**feed)
    with regard.watch(eager) as plain:
        eager(**feed)
    assert_same(plain[0], fused[0])


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt-oss", "falcon", "t5"])
@pytest.mark.usefixtures("by_hand")
@torch.no_grad()
def test_decoding_written_by_hand_gives_the_same_maps(name):
    model, feed = strangers.model(name), {"input_ids": strangers.tokens()}
    feed["attention_mask"] = strangers.real("left")
    eager, plan = strangers.eager(model), {"max_new_tokens": 4, "min_new_tokens": 4}
    with regard.watch(model) as fused:
        model.generate(**feed, **plan, do_sample=False)
    with regard.watch(eager) as plain:
        eager.generate(**feed, **plan, do_sample=False)
    assert_same(plain[0], fused[0])


def assert_same(trace, other):
    assert not trace.gaps
    for one, same in zip(trace, other, strict=True):
        assert (one.site, one.kind) == (same.site, same.kind)
        assert (one.rows, one.columns) == (same.rows, same.columns)
        torch.testing.assert_close(one.weights(), same.weights(), atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_sink_keeps_its_share_out_of_the_rows():
    model = strangers.model("gpt-oss")
    with regard.watch(model) as seen:
        model(**strangers.inputs("gpt-oss"))
    sums = seen[0].maps[0].weights().sum(-1)
    assert (sums < 1).all()


@torch.no_grad()
def test_kinds_and_streams_follow_the_flow():
    with regard.watch(model := strangers.model("marian")) as seen:
        model(**strangers.inputs("marian"))
    assert {name: len(each) for name, each in seen[0].streams.items()} == {"source": 7, "target": 5}
    assert [each.kind for each in seen[0]] == ["encoder"] * 2 + ["decoder", "cross"] * 2
    cross = seen[0].of("cross")[0]
    assert (cross.rows.stream, cross.columns.stream) == ("target", "source")
    assert cross.site == "model.decoder.layers.0.encoder_attn"


@torch.no_grad()
def test_layers_that_share_weights_are_maps_of_their_own():
    with regard.watch(model := strangers.model("albert")) as seen:
        model(**strangers.inputs("albert"))
    first, second = (each.site for each in seen[0])
    assert second == f"{first}#1"
