"""Rankings judged by erasing what they rank highest."""

from math import isnan

import pytest
import torch

from regard.attribution.erasure import ErasureMethod, ErasureOptions
from regard.errors import InputError, ShapeError, UnknownNameError
from regard.studies.faithfulness import (
    Faithfulness,
    Rankings,
    attention_effect,
    erasure_sizes,
    faithfulness,
)
from studies.tiny_models import SOUGHT, Distracted, Finder, tokenizer, translator, writer

IDS = {"input_ids": torch.tensor([[5, 2, 7, SOUGHT, 9, 4, 8]])}
FIVE_IDS = {"input_ids": torch.tensor([[5, 2, 7, SOUGHT, 9]])}
RIGHT, WRONG = torch.tensor([0.0, 0, 0, 1, 0, 0, 0]), torch.tensor([3.0, 2, 2, 0, 2, 2, 2])


def judged(model: torch.nn.Module, by: ErasureMethod = "mask-token", **how: object) -> Faithfulness:
    return faithfulness(model, None, IDS, erasure=ErasureOptions(by, fill=10), **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", ["mask-token", "attention", "delete"])
def test_a_ranking_that_has_the_one_word_first_is_comprehensive_and_sufficient(
    by: ErasureMethod,
) -> None:
    found = judged(Finder(), by, rankings=Rankings({"right": RIGHT, "wrong": WRONG}))
    right, wrong = found.curves["right"], found.curves["wrong"]
    bins = len([1, 2, 4])  # of seven words, the shares of 1 to 50%
    assert right.comprehensiveness > 0.75 * bins / (bins + 1)
    assert right.sufficiency == pytest.approx(0, abs=1e-6)
    assert wrong.comprehensiveness == pytest.approx(0, abs=1e-6)
    assert wrong.sufficiency > 0.75 * bins / (bins + 1)
    assert right.area > wrong.area


def test_the_area_is_that_of_every_step() -> None:
    found = judged(Finder(), rankings=Rankings({"right": RIGHT})).curves["right"]
    assert found.sizes == (1, 2, 3, 4, 5, 6)
    fall = found.without.neg() + 1 * float(found.alone[0])
    assert found.area == pytest.approx(fall.sum().item() / 7, abs=1e-6)


def test_attention_to_what_matters_is_faithful() -> None:
    found = judged(Finder())
    assert {"attention", "occlusion"} <= {*found.curves}
    assert found.curves["attention"].comprehensiveness == pytest.approx(
        found.curves["occlusion"].comprehensiveness
    )
    assert found.share_beaten("attention") >= 0.5
    assert found.agreement["attention"].kendall > 0.4


def test_attention_to_what_says_nothing_is_not() -> None:
    found = judged(Distracted(), "delete")
    # all but the word that is looked at have the same weight, and the first of them matters
    assert found.curves["occlusion"].comprehensiveness > 0.6
    assert found.curves["attention"].without[0].item() == pytest.approx(found.full_value)
    assert found.curves["occlusion"].without[0].item() < 0.2


def test_gradients_rank_where_the_model_gives_them_and_rollout_where_layers_are_several() -> None:
    found = faithfulness(
        writer(), tokenizer(), "we love tea and cats", rankings=Rankings(shuffles=2)
    )
    assert {*found.curves} == {"attention", "rollout", "gradient", "occlusion"}
    assert {*found.agreement} == {"attention", "rollout", "gradient"}
    once = faithfulness(translator(True), tokenizer(), "we love tea", rankings=Rankings(shuffles=2))
    assert {*once.curves} == {"attention", "gradient", "occlusion"}


def test_rankings_may_be_asked_for_by_name() -> None:
    found = judged(Finder(), rankings=Rankings(["gradient"], shuffles=2))
    assert {*found.curves} == {"gradient", "occlusion"}
    with pytest.raises(UnknownNameError, match="did you mean 'attention'"):
        Rankings(["attentions"])


def test_a_model_without_gradients_is_judged_without_them() -> None:
    class Rounded(Finder):
        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            return super().forward(input_ids).detach().round(decimals=3)

    assert "gradient" not in judged(Rounded()).curves
    with pytest.raises(InputError, match="gradient"):
        judged(Rounded(), rankings=Rankings(["gradient"]))


def test_shuffles_are_the_same_for_the_same_seed() -> None:
    first, same, other = (
        judged(Finder(), rankings=Rankings({}, shuffles=5, seed=seed)) for seed in (3, 3, 4)
    )
    orders = [[each.importance.tolist() for each in one.random] for one in (first, same, other)]
    assert orders[0] == orders[1] != orders[2]
    mean, spread = first.chance()
    assert mean == pytest.approx(sum(each.comprehensiveness for each in first.random) / 5)
    assert spread > 0


def test_scores_may_be_made_of_a_trace() -> None:
    found = judged(
        Finder(), rankings=Rankings({"mine": lambda trace: trace.maps[0].weights()[0, 0]})
    )
    assert found.curves["mine"].importance.argmax() == 3
    assert (found.objective, found.by) == ("class", "mask-token")


def test_agreement_of_scores_that_are_all_alike_is_unknown() -> None:
    found = judged(Finder(), rankings=Rankings({"flat": torch.ones(7)}))
    assert isnan(found.agreement["flat"].kendall)


@pytest.mark.parametrize(
    ("count", "sizes", "bins"),
    [(1, (1,), (1,)), (2, (1,), (1,)), (4, (1, 2, 3), (1, 2)), (7, (1, 2, 3, 4, 5, 6), (1, 2, 4))],
)
def test_never_all_words_are_erased(count: int, sizes: object, bins: object) -> None:
    assert erasure_sizes(count) == (sizes, bins)


def test_a_long_text_is_erased_in_few_steps_that_hold_the_bins() -> None:
    sizes, bins = erasure_sizes(1009)
    assert {*bins} <= {*sizes}
    assert len(sizes) <= 16 + len(bins)
    assert (sizes[0], sizes[-1]) == (1, 1008)


def test_scores_that_do_not_fit_the_tokens_are_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"'mine' to have a score for each of 7 tokens, got \(3,\)"
    ):
        judged(Finder(), rankings=Rankings({"mine": torch.ones(3)}))
    with pytest.raises(ShapeError, match="got list"):
        judged(Finder(), rankings=Rankings({"mine": lambda trace: [1]}))  # type: ignore[dict-item, return-value]


def test_no_shuffles_are_refused() -> None:
    with pytest.raises(InputError, match="at least one shuffle"):
        Rankings(shuffles=0)


def test_a_word_that_is_looked_at_for_nothing_has_weight_and_no_effect() -> None:
    found = attention_effect(Distracted(), None, FIVE_IDS, erasure=ErasureOptions("delete"))
    assert found.share.argmax() == 3
    assert found.share[3] > 0.5
    assert found.effect[3].item() == pytest.approx(0)
    assert found.effect[0] > 0.9
    assert found.share.sum().item() == pytest.approx(1)


def test_the_weight_may_be_another() -> None:
    weights = torch.tensor([1.0, 0.0, 0.0, 0.0, 3.0])
    found = attention_effect(Finder(), None, FIVE_IDS, importance=weights)
    assert found.share.tolist() == [0.25, 0, 0, 0, 0.75]


def test_special_tokens_hold_the_rest_of_the_weight() -> None:
    found = attention_effect(translator(), tokenizer(), "we love tea")
    assert 0.2 < found.share.sum().item() < 1
