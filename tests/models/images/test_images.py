import pytest
import torch

from regard.errors import InputError, ShapeError
from regard.models.images import Captioner, Recogniser, RecogniserConfig

BATCH, HEIGHT, WIDTH, TARGET, VOCAB = 2, 13, 11, 5, 53
SIZES = {"vocab": VOCAB, "d_embed": 7, "hidden": 11, "widths": (3, 5), "dropout": 0.0}
VARIANTS = {
    "soft": {},
    "hard": {"attention": "additive + hard"},
    "gru": {"cell": "gru", "layers": 2},
    "patches": {"features": "patches", "patch": 4},
    "luong": {"style": "luong", "attention": "general"},
    "none": {"attention": "none"},
}
EVERY = pytest.mark.parametrize("name", VARIANTS)


def built(name):
    return Captioner(**SIZES | VARIANTS[name]).double().eval()


def batch():
    pixels = torch.randn(BATCH, 3, HEIGHT, WIDTH, dtype=torch.float64)
    return pixels, torch.randint(0, VOCAB, (BATCH, TARGET))


@EVERY
def test_step_by_step_equals_all_at_once(name):
    model, (pixels, written) = built(name), batch()
    expected, state = model(pixels, written), model.begin(pixels)
    for step in range(TARGET):
        logits, state = model.step(state, written[:, step : step + 1])
        torch.testing.assert_close(logits, expected[:, step])


@EVERY
def test_gradients_reach_every_parameter(name):
    model, (pixels, written) = built(name).train(), batch()
    loss = model(pixels, written).logsumexp(-1).sum()
    if name == "hard":
        loss = loss + model.sample_attention(pixels, written).log_probability.sum()
    loss.backward()
    assert [name for name, each in model.named_parameters() if each.grad is None] == []


def test_a_picture_alone_equals_itself_in_a_batch():
    model, (pixels, written) = built("soft"), batch()
    torch.testing.assert_close(model(pixels[1:], written[1:]), model(pixels, written)[1:])


def test_the_decoder_looks_at_every_cell_of_the_grid():
    model, (pixels, _) = built("soft"), batch()
    assert model.encode(pixels).states.shape == (BATCH, 4 * 3, 5)
    assert built("patches").encode(pixels).states.shape == (BATCH, 3 * 2, 5)


@pytest.mark.parametrize("name", ["soft", "hard"])
def test_a_captioner_writes_with_beams(name):
    model, (pixels, _) = built(name), batch()
    ends = {"decoder_start_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    together = model.generate(pixels, num_beams=3, max_new_tokens=7, **ends)
    alone = model.generate(pixels[1:], num_beams=3, max_new_tokens=7, **ends)
    assert together[1].tolist() == alone[0].tolist()


@pytest.mark.parametrize("features", ["cnn", "patches"])
@pytest.mark.parametrize("attention", ["additive", "general + straight-through", "single-head"])
def test_a_recogniser_learns_where_the_light_is(features, attention):
    torch.manual_seed(1)
    model = Recogniser(
        classes=2, channels=1, widths=(7, 11), patch=4, features=features, attention=attention
    )
    pixels, labels = 0.1 * torch.randn(29, 1, 16, 16), torch.randint(0, 2, (29,))
    pixels[labels == 1, :, 4:8, 8:12] += 2.0
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(37):
        loss = torch.nn.functional.cross_entropy(model(pixels), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert (model.eval()(pixels).argmax(-1) == labels).float().mean() > 0.9


@pytest.mark.parametrize("kind", ["captioner", "recogniser"])
def test_a_saved_model_comes_back(kind, tmp_path):
    pixels, written = torch.randn(BATCH, 3, HEIGHT, WIDTH), batch()[1]
    model = built("gru").float() if kind == "captioner" else Recogniser(widths=(3, 5)).eval()
    inputs = (pixels, written) if kind == "captioner" else (pixels,)
    model.save_pretrained(tmp_path / "model")
    loaded = type(model).from_pretrained(tmp_path / "model")
    assert loaded.config == model.config
    assert torch.equal(loaded(*inputs), model(*inputs))


def test_bad_pictures_get_their_sentence(unchecked):
    model, (pixels, written) = built("soft"), batch()
    with pytest.raises(ShapeError, match=r"expected pixel_values \(batch, 3, height, width\)"):
        model(pixels[:, :2], written)
    with pytest.raises(InputError, match="4 x 4 pixels at least, got 2 x 11"):
        model(pixels[:, :, :2], written)
    with pytest.raises(InputError, match="a picture has no padding"):
        model.begin(pixels, torch.ones(BATCH, 3))
    with pytest.raises(InputError, match="widths should be"):
        RecogniserConfig(widths=())
