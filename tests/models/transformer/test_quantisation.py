import pytest
import torch

from models.transformer.cases import WRITERS, inputs, small, written
from regard.attention import QuantisedLinear
from regard.errors import InputError
from regard.models import Recurrent, Transformer, from_pretrained
from regard.models.transformer import native_decoder

ROWS = 3


def logits(model):
    """The logits of the same tokens, whatever the model."""
    torch.manual_seed(0)
    ids, marks = inputs(model, ROWS, 7)
    if model.reads_source:
        return model(ids, written(model, ROWS, 5), attention_mask=marks)
    return model(ids, attention_mask=marks)


@pytest.mark.parametrize("name", WRITERS)
def test_logits_stay_near_in_eight_bits(name):
    model = small(name)
    light, wanted = model.to_int8(), logits(model)
    assert (logits(light) - wanted).norm() < 0.05 * wanted.norm()


@pytest.mark.parametrize("native_step", [True, False])
@pytest.mark.parametrize("name", WRITERS)
@torch.no_grad()
def test_steps_in_eight_bits_give_what_one_pass_gives(name, native_step, monkeypatch):
    if not native_step:
        monkeypatch.setattr(
            native_decoder.NativeStep, "build_if_supported", staticmethod(lambda *_: None)
        )
    light = small(name).to_int8()
    ids, target = inputs(light, ROWS, 7)[0], written(light, ROWS, 5)
    whole = light(ids, target) if light.reads_source else light(target)
    state = light.begin(ids if light.reads_source else target)
    assert isinstance(state, native_decoder.NativeDecoderState)
    for place in range(target.shape[1]):
        found, state = light.step(state, target[:, place : place + 1])
        torch.testing.assert_close(found, whole[:, place], atol=0.03, rtol=0.03)


def test_a_saved_model_of_eight_bits_comes_back_as_it_was(tmp_path):
    light = small("vaswani").to_int8()
    light.save_pretrained(tmp_path / "light")
    again = Transformer.from_pretrained(tmp_path / "light")
    assert torch.equal(logits(again), logits(light))
    assert again.config.precision == "int8"


def test_its_large_matrices_take_a_quarter_of_the_bytes(tmp_path):
    model = small("vaswani", d_model=66, d_ff=256, vocab=53)
    light = model.to_int8()
    kept = [each for each in light.modules() if isinstance(each, QuantisedLinear)]
    whole = [each for each in model.modules() if isinstance(each, torch.nn.Linear)]
    assert len(kept) == len(whole)
    assert 3.5 * sum(e.values.nbytes for e in kept) < sum(e.weight.nbytes for e in whole)


def test_a_model_is_loaded_in_eight_bits_when_asked(tmp_path):
    model = small("llama")
    model.save_pretrained(tmp_path / "m")
    light = from_pretrained(tmp_path / "m", precision="int8")
    assert torch.equal(logits(light), logits(model.to_int8()))
    assert light.to_int8() is light


def test_a_recurrent_model_has_no_form_of_eight_bits(tmp_path):
    Recurrent(vocab=11, d_embed=5, hidden=6).save_pretrained(tmp_path / "m")
    with pytest.raises(InputError, match="only a Transformer has an int8 form"):
        from_pretrained(tmp_path / "m", precision="int8")
