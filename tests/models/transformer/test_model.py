import pytest
import torch
import torch.nn.functional as F

import regard
from models.transformer.cases import SMALL, VOCAB, WRITERS, inputs, small, written
from regard.errors import InputError, ShapeError
from regard.masks import window
from regard.models import Transformer, TransformerConfig

ROWS, LENGTH = 3, 7


def test_the_short_way_is_the_model_of_2017():
    model = Transformer(d_model=512, layers=6, heads=8, d_ff=2048, dropout=0.1)
    layers = 6 * (4 * 512 * 513 + 2 * 512 * 2048 + 2048 + 512 + 4 * 512)
    cross = 6 * (4 * 512 * 513 + 2 * 512)
    count = sum(each.numel() for each in model.parameters())
    assert model.config == TransformerConfig()
    assert count == 37000 * 512 + 2 * layers + cross


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_gives_logits_for_each_position(name):
    model = small(name)
    ids, target = inputs(model, ROWS, LENGTH)[0], written(model, ROWS, 5)
    logits = model(ids, target) if model.reads_source else model(ids)
    assert logits.shape == (
        ROWS,
        5 if model.reads_source else LENGTH,
        model.config.target_vocab or VOCAB,
    )


@pytest.mark.parametrize("name", WRITERS)
def test_gradients_reach_every_parameter(name):
    model = small(name).train()
    ids, target = inputs(model, ROWS, LENGTH)[0], written(model, ROWS, 5)
    logits = model(ids, target) if model.reads_source else model(ids)
    F.cross_entropy(
        logits[:, :-1].flatten(0, 1), (target if model.reads_source else ids)[:, 1:].flatten()
    ).backward()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in model.parameters())


def test_it_is_torchs_own_transformer_layer_by_layer():
    model = Transformer(
        TransformerConfig(**SMALL, kind="encoder", positions="none", scale_embedding=False)
    ).eval()
    theirs = torch.nn.TransformerEncoderLayer(24, 6, 29, batch_first=True).eval()
    layer, names = model.encoder.layers[0], {}
    names["self_attn.in_proj_weight"] = torch.cat(
        [getattr(layer.attention, w).weight for w in ("w_q", "w_k", "w_v")]
    )
    names["self_attn.in_proj_bias"] = torch.cat(
        [getattr(layer.attention, w).bias for w in ("w_q", "w_k", "w_v")]
    )
    for there, here in (
        ("self_attn.out_proj", layer.attention.w_o),
        ("linear1", layer.feed_forward.up),
        ("linear2", layer.feed_forward.down),
        ("norm1", layer.norm_attention),
        ("norm2", layer.norm_feed_forward),
    ):
        names |= {f"{there}.{part}": each for part, each in here.named_parameters()}
    theirs.load_state_dict(names)
    x = torch.randn(ROWS, LENGTH, 24)
    torch.testing.assert_close(layer(x)[0], theirs(x))


@pytest.mark.parametrize("name", WRITERS)
def test_an_example_alone_equals_itself_in_a_padded_batch(name):
    model = small(name)
    side = "right" if model.reads_source else "left"
    ids, marks = inputs(model, ROWS, LENGTH, side=side)
    target = written(model, ROWS, 5)
    for row, real in enumerate(marks.bool()):
        alone = ids[row : row + 1, real]
        if model.reads_source:
            one, all_ = (
                model(alone, target[row : row + 1]),
                model(ids, target, attention_mask=marks),
            )
        else:
            one, all_ = model(alone), model(ids, attention_mask=marks)[:, real]
        torch.testing.assert_close(one[0], all_[row], atol=1e-5, rtol=1e-5)


def test_the_future_of_the_target_is_not_seen():
    model = small("vaswani")
    ids, target = inputs(model, ROWS, LENGTH)[0], written(model, ROWS, 5)
    before = model(ids, target)
    target[:, 3:] = 1
    torch.testing.assert_close(model(ids, target)[:, :3], before[:, :3])


def test_a_custom_mask_joins_the_self_attention():
    model = small("gpt2", layers=1)
    ids, _ = inputs(model, ROWS, LENGTH)
    near = model(ids, mask=window(1, 0))
    ids[:, 2] = 5
    torch.testing.assert_close(model(ids, mask=window(1, 0))[:, 4:], near[:, 4:])
    assert not torch.allclose(model(ids, mask=window(1, 0))[:, 3], near[:, 3])


def test_tied_embeddings_are_one_parameter():
    tied = small("vaswani")
    assert tied.head.output.weight is tied.encoder.embeddings.tokens.weight
    assert tied.decoder.embeddings.tokens is tied.encoder.embeddings.tokens
    apart = small("two vocabularies")
    assert (
        len(
            {
                id(each)
                for each in (
                    apart.head.output.weight,
                    apart.decoder.token_embedding().weight,
                    apart.encoder.token_embedding().weight,
                )
            }
        )
        == 3
    )


@pytest.mark.parametrize(("init", "std"), [(None, 24**-0.5), (0.02, 0.02)])
def test_the_numbers_start_as_the_config_says(init, std):
    model = Transformer(**SMALL | {"vocab": 997}, init_std=init)
    assert model.encoder.token_embedding().weight.std().item() == pytest.approx(std, rel=0.05)
    matrix = model.decoder.layers[0].cross.w_k.weight
    expected = (2 / 48) ** 0.5 if init is None else 0.02
    assert matrix.std().item() == pytest.approx(expected, rel=0.1)
    assert not model.decoder.layers[0].cross.w_k.bias.any()


def test_every_attention_is_watched_at_its_own_site():
    model = small("vaswani")
    ids, marks = inputs(model, ROWS, LENGTH)
    with regard.watch(model) as seen:
        model(ids, written(model, ROWS, 5), attention_mask=marks)
    sites = {each.site for each in seen[0].maps}
    assert sites == {
        f"{side}.layers.{layer}.{kind}"
        for layer in (0, 1)
        for side, kind in (("encoder", "attention"), ("decoder", "attention"), ("decoder", "cross"))
    }


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda m: m(), InputError, "kind 'encoder-decoder' expected input_ids"),
        (lambda m: m(torch.ones(1, 2).long()), InputError, "expected decoder_input_ids too"),
        (lambda m: m(torch.ones(1, 0).long()), InputError, "decoder_input_ids"),
        (lambda m: m.begin(torch.ones(1, 0).long()), InputError, "at least one token, got ids of"),
        (lambda m: m.begin(torch.ones(3).long()), ShapeError, r"\(batch, length\), got .*\(3,\)"),
        (lambda m: m.begin(torch.ones(1, 3)), InputError, "whole numbers, got torch.float32"),
        (lambda m: m.begin(torch.full((1, 3), 101)), InputError, "0 to 100, got the id 101"),
        (lambda m: m.begin(torch.full((1, 3), -1)), InputError, "vocabulary of 101 .* the id -1"),
        (lambda m: m.begin(torch.ones(1, 43).long()), InputError, "41 positions, got 43 tokens"),
        (
            lambda m: m.begin(torch.ones(1, 3).long(), torch.ones(1, 5)),
            ShapeError,
            r"attention_mask of the shape of the ids, \(1, 3\), got \(1, 5\)",
        ),
        (
            lambda m: m(
                torch.ones(1, 3).long(),
                torch.ones(1, 2).long(),
                token_type_ids=torch.ones(1, 3).long(),
            ),
            InputError,
            "no token types",
        ),
    ],
)
def test_bad_input_gets_its_sentence(run, error, message):
    with pytest.raises(error, match=message):
        run(small("vaswani"))


def test_dropout_of_weights_is_refused_where_there_is_one_weight():
    with pytest.raises(InputError, match="hard attention has one weight"):
        Transformer(**SMALL, attention="hard", attention_dropout=0.1)


def test_a_text_that_is_too_long_is_refused_before_its_vectors_are_made(monkeypatch):
    model = small("vaswani")
    monkeypatch.setattr(model.encoder.embeddings, "_look_up", lambda ids: pytest.fail("looked up"))
    with pytest.raises(InputError, match="positions, got 9999 tokens"):
        model.begin(torch.ones(1, 9999).long())
