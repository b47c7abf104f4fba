import pytest
import torch

from regard.tracing.mask_reading.caller_masks import CallerMasks

REAL = torch.arange(7) < torch.tensor([[7], [5], [2]])


def noted(**inputs):
    masks = CallerMasks()
    masks.note_inputs(inputs)
    return masks


@pytest.mark.parametrize("name", ["attention_mask", "encoder_attention_mask", "text_mask", "mask"])
def test_ones_mark_real_tokens(name):
    real = noted(**{name: REAL.long()}).real_tokens(3, 7, in_decoder=False)
    assert torch.equal(real, REAL)


def test_a_padding_mask_of_torch_marks_padding():
    real = noted(src_key_padding_mask=~REAL).real_tokens(3, 7, in_decoder=False)
    assert torch.equal(real, REAL)


@pytest.mark.parametrize(
    "inputs",
    [
        {"attention_mask": torch.ones(3, 7)},  # numbers that are added to scores
        {"attention_mask": torch.ones(3, 7).long()},  # hides nothing
        {"attention_mask": REAL[:, None].long()},  # over pairs
        {"attention_mask": torch.arange(21).view(3, 7)},  # of packed texts, by their numbers
        {"global_attention_mask": REAL.long()},
        {"input_ids": REAL.long()},
    ],
    ids=lambda inputs: next(iter(inputs)),
)
def test_other_inputs_say_nothing_of_padding(inputs):
    masks = noted(**inputs)
    assert not masks
    assert masks.real_tokens(3, 7, in_decoder=False) is None


def test_a_mask_of_another_size_says_nothing():
    assert noted(attention_mask=REAL).real_tokens(3, 6, in_decoder=False) is None


def test_a_decoder_has_a_mask_of_its_own():
    masks = noted(attention_mask=REAL, decoder_attention_mask=REAL.flip(0))
    assert torch.equal(masks.real_tokens(3, 7, in_decoder=True), REAL.flip(0))
    assert torch.equal(masks.real_tokens(3, 7, in_decoder=False), REAL)


def test_the_source_s_mask_says_nothing_of_a_decoder_without_one():
    masks = noted(attention_mask=REAL, decoder_input_ids=torch.ones(3, 7).long())
    assert masks.real_tokens(3, 7, in_decoder=True) is None


def test_masks_that_contradict_each_other_say_nothing():
    masks = noted(attention_mask=REAL, padding_mask=REAL)  # True means two things here
    assert masks.real_tokens(3, 7, in_decoder=False) is None
