"""Curves of erasure, and how well two rankings agree."""

from itertools import combinations
from math import isnan, sqrt

import pytest
import torch

from regard.errors import InputError, ShapeError
from regard.measures.faithfulness import (
    SHARES,
    area_over_curve,
    bin_sizes,
    comprehensiveness,
    kendall,
    ranking,
    spearman,
    sufficiency,
)

TIED = [3.0, 1.0, 1.0, 4.0, 1.0, 5.0, 3.0]
OTHER = [2.0, 7.0, 1.0, 8.0, 2.0, 8.0, 1.0]


def test_falls_are_differences_from_the_whole() -> None:
    values = torch.tensor([0.5, 0.875])
    assert comprehensiveness(0.75, values).tolist() == [0.25, -0.125]
    assert sufficiency(0.75, values).tolist() == [0.25, -0.125]


def test_the_area_counts_the_step_at_which_nothing_is_erased() -> None:
    falls = torch.tensor([[0.25, 0.5, 0.25], [0.0, 0.0, 1.0]])
    assert area_over_curve(falls).tolist() == [0.25, 0.25]


def test_a_curve_without_steps_is_refused() -> None:
    with pytest.raises(ShapeError, match="at least one step"):
        area_over_curve(torch.zeros(0))


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(1, (1,)), (2, (1,)), (3, (1, 2)), (20, (1, 2, 4, 10)), (1000, (10, 50, 100, 200, 500))],
)
def test_shares_are_rounded_up_and_each_number_stands_once(
    count: int, sizes: tuple[int, ...]
) -> None:
    assert bin_sizes(SHARES, count) == sizes


def test_a_share_that_is_a_whole_number_is_not_rounded_up() -> None:
    assert bin_sizes([0.07, 0.29], 100) == (7, 29)


@pytest.mark.parametrize(("shares", "count"), [((), 3), ((0.0,), 3), ((1.1,), 3), ((0.5,), 0)])
def test_shares_that_are_none_are_refused(shares: tuple[float, ...], count: int) -> None:
    with pytest.raises(InputError, match="expected shares between 0 and 1"):
        bin_sizes(shares, count)


def test_a_ranking_has_the_highest_first_and_leaves_equals_in_their_order() -> None:
    assert ranking(torch.tensor([0.1, 0.4, 0.1, 0.9, 0.4])) == [3, 1, 4, 0, 2]


def test_scores_that_are_no_numbers_have_no_ranking() -> None:
    with pytest.raises(InputError, match="finite score"):
        ranking(torch.tensor([0.1, torch.nan]))


def by_pairs(one: list[float], other: list[float]) -> float:
    """Tau-b as Kendall wrote it: pairs that agree, less those that do not, ties left out."""
    score, first, second = 0, 0, 0
    for a, b in combinations(range(len(one)), 2):
        left, right = one[a] - one[b], other[a] - other[b]
        score += (left * right > 0) - (left * right < 0)
        first, second = first + (left != 0), second + (right != 0)
    return score / sqrt(first * second)


def test_kendall_counts_pairs_and_leaves_out_ties() -> None:
    assert kendall(torch.tensor(TIED), torch.tensor(OTHER)) == pytest.approx(by_pairs(TIED, OTHER))


def test_spearman_is_the_correlation_of_mean_ranks() -> None:
    ranks = [
        torch.tensor([sum(a < b for a in each) + sum(a == b for a in each) / 2 for b in each])
        for each in (TIED, OTHER)
    ]
    expected = torch.corrcoef(torch.stack(ranks))[0, 1].item()
    assert spearman(torch.tensor(TIED), torch.tensor(OTHER)) == pytest.approx(expected)


@pytest.mark.parametrize("measure", [kendall, spearman])
def test_a_ranking_agrees_with_itself_and_disagrees_with_its_reverse(measure) -> None:
    scores = torch.randn(13)
    assert measure(scores, scores.exp()) == pytest.approx(1)
    assert measure(scores, -scores) == pytest.approx(-1)


@pytest.mark.parametrize("measure", [kendall, spearman])
def test_scores_that_are_all_alike_agree_with_nothing(measure) -> None:
    assert isnan(measure(torch.ones(5), torch.randn(5)))


@pytest.mark.parametrize("measure", [kendall, spearman])
@pytest.mark.usefixtures("unchecked")
def test_scores_of_unequal_numbers_of_tokens_are_refused(measure) -> None:
    with pytest.raises(ShapeError, match=r"got \(3,\) and \(5,\)"):
        measure(torch.randn(3), torch.randn(5))
