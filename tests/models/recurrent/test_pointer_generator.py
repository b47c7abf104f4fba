import pytest
import torch

import regard
from regard.errors import InputError
from regard.models import PointerGenerator

VOCAB, SOURCE = 53, 7
KINDS = {
    "see": {},
    "general": {"attention": "general"},
    "no coverage": {"coverage": False},
    "no input feeding": {"input_feeding": False},
    "bahdanau": {"style": "bahdanau", "input_feeding": False},
    "tied lstm": {"tie_embeddings": True, "cell": "lstm"},
}


def small(**settings):
    torch.manual_seed(5)
    model = PointerGenerator(vocab=VOCAB, d_embed=11, hidden=14, dropout=0.0, **settings).eval()
    if model.coverage is not None:
        torch.nn.init.normal_(model.coverage)
    model.generation = model.generation.replace(
        decoder_start_token_id=2, eos_token_id=(3,), pad_token_id=0, max_new_tokens=5
    )
    return model


def inputs():
    """A batch with a word that the vocabulary lacks in each row, and padding in the second."""
    source = torch.tensor([[5, 54, 7, 53, 9, 54, 8], [4, 53, 6, 3, 0, 0, 0]])
    return source, torch.tensor([[2, 54, 5], [2, 8, 53]]), (source != 0).long()


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_the_probabilities_of_generating_and_copying_sum_to_one(settings):
    source, target, real = inputs()
    log_p = small(**settings)(source, target, attention_mask=real)
    assert log_p.shape == (2, 3, VOCAB + 2)
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(2, 3))


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_a_text_alone_is_its_row_of_a_batch(settings):
    (source, target, real), model = inputs(), small(**settings)
    together = model(source, target, attention_mask=real)[1:, :, : VOCAB + 1]
    torch.testing.assert_close(together, model(source[1:, :4], target[1:]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_steps_give_what_the_whole_target_gives(settings):
    (source, target, real), model = inputs(), small(**settings)
    whole, state = model(source, target, attention_mask=real), model.begin(source, real)
    for step in range(target.shape[1]):
        log_p, state = model.step(state, target[:, step : step + 1])
        torch.testing.assert_close(log_p, whole[:, step], atol=1e-5, rtol=1e-5)
    state = model.begin(source, real)
    log_p, _ = model.step(state, target)
    torch.testing.assert_close(log_p, whole[:, -1], atol=1e-5, rtol=1e-5)


def test_a_word_that_only_the_source_has_is_copied_with_its_weights():
    (source, target, real), model = inputs(), small()
    mixture = model.mixture(source, target, attention_mask=real)
    copied = (mixture.weights[0, 1, 1] + mixture.weights[0, 1, 5]) * torch.sigmoid(
        -mixture.gate[0, 1]
    )
    log_p = model(source, target, attention_mask=real)
    torch.testing.assert_close(log_p[0, 1, 54].exp(), copied)
    assert log_p[1, 0, 54] == -torch.inf


def test_the_probability_of_labels_is_that_of_the_whole_distribution():
    (source, target, real), model = inputs(), small()
    labels = torch.tensor([[54, 5, 3], [8, 53, 6]])
    mixture = model.mixture(source, target, attention_mask=real)
    expected = model(source, target, attention_mask=real).gather(-1, labels[..., None])[..., 0]
    torch.testing.assert_close(mixture.log_probability_of(labels), expected)


def test_the_gradient_of_the_loss_reaches_every_parameter_and_is_finite():
    (source, target, real), model = inputs(), small().train()
    mixture = model.mixture(source, target, attention_mask=real)
    labels = torch.tensor([[54, 5, 3], [8, 52, 6]])  # 52 is not in its source
    (mixture.log_probability_of(labels, 0.1).sum() + mixture.coverage_loss.sum()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("beams", [1, 3])
def test_beams_reorder_the_coverage_with_their_rows(beams):
    (source, _, real), model = inputs(), small()
    together = model.generate(source, real, num_beams=beams)
    alone = model.generate(source[:1], num_beams=beams)
    torch.testing.assert_close(together.scores[0], alone.scores[0], atol=1e-5, rtol=1e-5)
    whole = model(source[:1], alone[0][None, :-1])[0]
    score = whole.gather(-1, alone[0][1:, None]).sum() / (len(alone[0]) - 1)
    torch.testing.assert_close(score, alone.scores[0], atol=1e-5, rtol=1e-5)


def test_coverage_that_is_left_out_is_no_coverage():
    (source, target, _), model = inputs(), small()
    without = model.mixture(source, target, covered=False).weights
    torch.nn.init.zeros_(model.coverage)
    torch.testing.assert_close(without, model.mixture(source, target).weights)


def test_a_pointer_generator_is_saved_and_loaded_whole(tmp_path):
    (source, target, _), model = inputs(), small()
    model.save_pretrained(tmp_path)
    loaded = PointerGenerator.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded(source, target), model(source, target))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_vocab": 9}, "both sides need one vocabulary"),
        ({"attention": "multi-head"}, "one head of attention"),
        ({"attention": "none"}, "one head of attention"),
        ({"unknown": VOCAB}, "unknown is the id of a token, 0 to 52, got 53"),
    ],
)
def test_settings_with_which_nothing_can_be_copied_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        small(**settings)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS)
def test_what_is_watched_are_the_weights_of_each_step(settings):
    (source, target, _), model = inputs(), small(**settings)
    with torch.no_grad(), regard.watch(model) as seen:
        log_p = model(source[:1], target[:1])
    (attention_map,) = seen[0].maps
    weights = model.mixture(source[:1], target[:1]).weights
    torch.testing.assert_close(attention_map.weights(), weights.detach())
    torch.testing.assert_close(log_p, model(source[:1], target[:1]).detach())
    assert not seen[0].gaps


def test_what_is_watched_in_generation_are_the_weights_of_the_whole_target():
    (source, _, _), model = inputs(), small()
    with regard.watch(model) as seen:
        ids = model.generate(source[:1], num_beams=2)
    weights = model.mixture(source[:1], ids[0][None, :-1]).weights
    torch.testing.assert_close(seen[0].maps[0].weights(), weights.detach(), atol=1e-5, rtol=1e-5)
