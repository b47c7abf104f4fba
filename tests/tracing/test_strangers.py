"""Capture's law: what is seen equals what the model itself returns in eager mode."""

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
    model.set_attn_implementation("eager")
    result = model(**feed, output_attentions=True)
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
