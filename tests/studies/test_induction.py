"""Random tokens that come twice."""

from math import isnan

import pytest
import torch

import regard
from regard.errors import InputError
from regard.studies.induction import RepeatOptions, induction_test
from studies.tiny_models import Copier, reader, tokenizer, translator, writer

SITE = "decoder.layers.0.attention"


def test_heads_that_copy_are_known_by_what_they_look_at() -> None:
    (found,) = induction_test(Copier(), options=RepeatOptions(11, 3)).sites.values()
    for number, name in enumerate(["previous", "induction", "duplicate"]):
        torch.testing.assert_close(found.mean(name)[number].item(), 1.0)
        others = [each for each in range(3) if each != number]
        # a token of the first copy that has no such key looks at itself
        assert found.mean(name)[others].max() < 0.1, name


def test_tokens_come_twice_behind_a_start_and_none_of_them_is_special() -> None:
    ids = induction_test(writer(), tokenizer(), options=RepeatOptions(7, 3, seed=5)).sequences
    assert ids.shape == (3, 15)
    assert ids[:, 0].tolist() == [tokenizer().bos_token_id] * 3
    assert torch.equal(ids[:, 1:8], ids[:, 8:])
    assert not {*ids[:, 1:].flatten().tolist()} & {*tokenizer().all_special_ids}
    assert all(len({*row.tolist()}) == 7 for row in ids[:, 1:])


def test_the_same_seed_draws_the_same_tokens() -> None:
    drawn = [
        induction_test(Copier(), options=RepeatOptions(7, 2, seed=seed)).sequences
        for seed in (3, 3, 4)
    ]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_tokens_are_drawn_from_those_that_are_given() -> None:
    chosen = (7, 11, 13, 17, 19)
    ids = induction_test(Copier(), options=RepeatOptions(5, 2, ids=chosen)).sequences
    assert {*ids.flatten().tolist()} == {*chosen}


def test_scores_are_the_weights_on_the_copy() -> None:
    model = writer()
    found = induction_test(model, tokenizer(), options=RepeatOptions(5, 1))
    with torch.no_grad(), regard.watch(model) as seen:
        model(found.sequences)
    weights = seen[0][SITE].weights().double()
    second = range(6, 11)
    for name, back in (("induction", 4), ("duplicate", 5)):
        expected = torch.stack([weights[:, row, row - back] for row in second]).mean(dim=0)
        torch.testing.assert_close(getattr(found.sites[SITE], name)[0], expected)
    previous = torch.stack([weights[:, row, row - 1] for row in range(1, 11)]).mean(dim=0)
    torch.testing.assert_close(found.sites[SITE].previous[0], previous)


def test_the_loss_of_each_copy_is_told_for_a_model_that_continues() -> None:
    model = writer()
    found = induction_test(model, tokenizer(), options=RepeatOptions(5, 1))
    said = model(found.sequences).detach().double().log_softmax(-1)[0, :-1]
    lost = -said.gather(1, found.sequences[0, 1:, None])[:, 0]
    assert found.loss == pytest.approx((lost[1:5].mean().item(), lost[6:10].mean().item()))


def test_both_sides_of_a_translator_are_given_the_tokens() -> None:
    found = induction_test(translator(), tokenizer(), options=RepeatOptions(5, 1))
    assert {*found.sites} == {"encoder.layers.0.attention", "decoder.layers.0.attention"}


def test_a_model_that_looks_both_ways_has_no_loss() -> None:
    found = induction_test(reader(), tokenizer(), options=RepeatOptions(5, 1))
    assert isnan(found.loss[0])
    assert found.sites["encoder.layers.1.attention"].induction.shape == (1, 2)


def test_progress_is_told() -> None:
    heard: list[tuple[int, int]] = []
    induction_test(
        Copier(), options=RepeatOptions(5, 2), on_progress=lambda *each: heard.append(each)
    )
    assert heard == [(1, 2), (2, 2)]


def test_too_few_tokens_are_refused() -> None:
    with pytest.raises(InputError, match=r"at least 31 tokens that are not special .* got 5"):
        induction_test(Copier(vocabulary=5), options=RepeatOptions(31))
    with pytest.raises(InputError, match="at least one sequence of at least two tokens"):
        RepeatOptions(length=1)


def test_a_model_that_does_not_look_at_its_own_tokens_is_refused() -> None:
    with pytest.raises(InputError, match="Recurrent was not seen to attend to its own tokens"):
        induction_test(translator(recurrent=True), tokenizer(), options=RepeatOptions(5, 1))


def test_a_model_of_pictures_is_refused() -> None:
    class Sees(Copier):
        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            return super().forward(pixel_values)

    with pytest.raises(InputError, match="reads no ids"):
        induction_test(Sees(), options=RepeatOptions(5, 1))
