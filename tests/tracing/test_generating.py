"""Rows and tokens of generation end up where they belong, however the model decodes."""

import warnings

import pytest
import torch

import regard
from regard.tracing.assembly.token_labels import TokenLabels

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

BATCH, LENGTH, BEAMS, STEPS = 3, 7, 3, 5
PAIRS = ("marian", "bart", "t5")
MODELS = ("gpt2", "llama", "mistral", "gemma2", *PAIRS)


def sharp(name):
    """A model whose heads look at some tokens more than at others, so that beams part."""
    model = strangers.model(name)
    with torch.no_grad():
        for each in model.parameters():
            if each.dim() > 1:
                each.mul_(4)
    return model


def prompts(name):
    real = torch.ones(BATCH, LENGTH, dtype=torch.long)
    real[0, -2:] = 0
    if name not in PAIRS:
        real = real.flip(1)  # decoders are padded at the left
    return {"input_ids": torch.randint(3, 100, (BATCH, LENGTH)), "attention_mask": real}


def generate(model, feed, **plan):
    plan = {"max_new_tokens": STEPS, "do_sample": False} | plan
    return model.generate(**feed, **plan, return_dict_in_generate=True, output_scores=True)


def forced(name, model, feed, sequences, repeats=1):
    """The traces of the same hypotheses, each read in one pass."""
    feed = {key: each.repeat_interleave(repeats, dim=0) for key, each in feed.items()}
    read = sequences[:, :-1]
    if name in PAIRS:
        feed["decoder_input_ids"] = read
    else:
        more = torch.ones(len(read), read.shape[1] - LENGTH, dtype=torch.long)
        real = torch.cat([feed["attention_mask"], more], dim=1)
        places = (real.cumsum(-1) - 1).clamp_min(0)
        feed = {"input_ids": read, "attention_mask": real, "position_ids": places}
    with regard.watch(model) as seen:
        model(**feed)
    return seen


def assert_alike(one, other):
    """The same sites and weights; a hypothesis that ended has fewer rows than were forced."""
    assert [each.site for each in one] == [each.site for each in other]
    for each, twin in zip(one, other, strict=True):
        _, rows, columns = each.shape
        torch.testing.assert_close(
            each.weights(), twin.weights()[:, :rows, :columns], atol=1e-5, rtol=0
        )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_static_cache_gives_the_maps_of_the_teacher_forced_pass(name, mode):
    model, feed = sharp(name), prompts(name)
    with mode():
        with regard.watch(model) as seen:
            out = generate(model, feed, min_new_tokens=STEPS, cache_implementation="static")
        for one, other in zip(seen, forced(name, model, feed, out.sequences), strict=True):
            assert_alike(one, other)
            assert one.maps[-1].shape[1] == other.maps[-1].shape[1]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("returned", [1, 2])
@torch.no_grad()
def test_a_told_hypothesis_has_the_maps_of_its_teacher_forced_pass(name, returned):
    model, feed = sharp(name), prompts(name)
    plan = {"num_beams": BEAMS, "min_new_tokens": STEPS, "num_return_sequences": returned}
    with regard.watch(model) as seen:
        out = generate(model, feed, **plan)
        seen.set_labels(TokenLabels(rows=out.beam_indices.T))
    for one, other in zip(seen, forced(name, model, feed, out.sequences, returned), strict=True):
        assert_alike(one, other)
        assert one.maps[-1].shape[1] == other.maps[-1].shape[1]


@pytest.mark.parametrize("name", ["llama", "mistral", "bart"])
@torch.no_grad()
def test_a_told_hypothesis_that_ended_early_has_the_rows_that_it_read(name):
    model, feed = sharp(name), prompts(name)
    ends = {"eos_token_id": list(range(2, 101, 2)), "early_stopping": True, "max_new_tokens": 13}
    with regard.watch(model) as seen:
        out = generate(model, feed, num_beams=BEAMS, **ends)
        seen.set_labels(TokenLabels(rows=out.beam_indices.T))
    lengths = (out.beam_indices >= 0).sum(1)
    assert lengths.min() < lengths.max()
    begun = 1 if name in PAIRS else feed["attention_mask"].sum(1)
    for one, other in zip(seen, forced(name, model, feed, out.sequences), strict=True):
        assert_alike(one, other)
    rows = [each.of("decoder")[0].shape[1] for each in seen]
    assert rows == (begun + lengths - 1).tolist()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@torch.no_grad()
def test_a_row_of_an_untold_beam_search_is_the_hypothesis_that_it_led_to(name, cache):
    model, feed = sharp(name), prompts(name)
    plan = {"num_beams": BEAMS, "num_return_sequences": BEAMS, "min_new_tokens": STEPS}
    with regard.watch(model) as seen:
        out = generate(model, feed, cache_implementation=cache, **plan)
    assert len(seen) == BATCH * BEAMS
    known = forced(name, model, feed, out.sequences, BEAMS)
    for row, other in zip(out.beam_indices[:, -1], known, strict=True):
        assert_alike(seen[row], other)
        assert seen[row].maps[-1].shape[1] == other.maps[-1].shape[1]
