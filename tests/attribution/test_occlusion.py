"""What each word does, and the weight that it has."""

import pytest
import torch

from regard.attribution.erasure import ErasureMethod, ErasureOptions
from regard.attribution.occlusion import occlusion
from regard.tracing.inputs.example import run_forward
from studies.tiny_models import SOUGHT, Finder, tokenizer, translator, writer

IDS = {"input_ids": torch.tensor([[5, 2, 7, SOUGHT, 9]])}


@pytest.mark.parametrize("by", ["mask-token", "attention", "delete"])
def test_the_one_word_that_matters_has_all_the_effect(by: ErasureMethod) -> None:
    found = occlusion(Finder(), None, IDS, erasure=ErasureOptions(by, fill=10))
    assert (found.objective, found.by, found.units[3]) == ("class", by, (3,))
    torch.testing.assert_close(found.effect[[0, 1, 2, 4]], torch.zeros(4).double())
    assert found.effect[3] > 0.8 * found.full_value > 0.7


def test_the_effect_is_what_the_model_loses_without_the_word() -> None:
    model = writer()
    ids = torch.tensor([[5, 6, 7, 8]])
    found = occlusion(model, None, {"input_ids": ids}, erasure=ErasureOptions("mask-token", fill=9))
    said = run_forward(model, {"input_ids": ids})[0, -1].softmax(-1)
    other = run_forward(model, {"input_ids": torch.tensor([[5, 9, 7, 8]])})[0, -1].softmax(-1)
    expected = said.max() - other[said.argmax()]
    assert found.effect[1].item() == pytest.approx(expected.item(), abs=1e-6)


def test_a_translation_is_judged_while_it_is_forced() -> None:
    model, text = translator(), "we love tea"
    found = occlusion(model, tokenizer(), text, target="you see")
    assert (found.objective, len(found.texts)) == ("generated text", 3)
    ids, target = (torch.tensor([tokenizer()(each)["input_ids"]]) for each in (text, "you see"))
    start = torch.full((1, 1), tokenizer().bos_token_id)
    read = torch.cat([start, target[:, :-1]], dim=1)
    said = run_forward(model, {"input_ids": ids, "decoder_input_ids": read}).log_softmax(-1)
    expected = said.gather(2, target[:, :, None]).mean().exp()
    assert found.full_value == pytest.approx(expected.item(), rel=1e-5)


def test_an_objective_of_one_s_own_is_judged() -> None:
    found = occlusion(Finder(), None, IDS, objective=lambda output: output[:, SOUGHT])
    assert (found.objective, found.full_value) == ("custom", pytest.approx(10))
    torch.testing.assert_close(found.effect, torch.tensor([0, 0, 0, 10, 0]).double())


def test_special_tokens_are_left_out_and_named() -> None:
    model, text = translator(), "we love tea"
    found = occlusion(model, tokenizer(), text, target="you see")
    erased = {place for unit in found.units for place in unit}
    assert [(each.text, each.reason) for each in found.left_out] == [("</s>", "special token")]
    assert {each.position for each in found.left_out}.isdisjoint(erased)
    assert repr(found).endswith("; left out: </s> (special token)>")
    every = occlusion(
        model, tokenizer(), text, target="you see", erasure=ErasureOptions(special=True)
    )
    assert every.left_out == ()


def test_the_token_that_the_next_one_is_predicted_from_is_left_out_and_named() -> None:
    ids = {"input_ids": torch.tensor([[5, 6, 7, 8]])}
    found = occlusion(writer(), None, ids, erasure=ErasureOptions("attention"))
    assert [(each.position, each.reason) for each in found.left_out] == [
        (3, "needed by the objective")
    ]
    assert occlusion(writer(), None, ids, erasure=ErasureOptions("delete")).left_out == ()
