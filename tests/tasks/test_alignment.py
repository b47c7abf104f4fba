"""Token onsets by dynamic time warping."""

import itertools

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.tasks.alignment import find_token_onsets, median_filter, warp


def cheapest(cost):
    """The smallest sum of all paths, each tried."""
    rows, columns = cost.shape

    def paths(i, j):
        if (i, j) == (rows - 1, columns - 1):
            yield [(i, j)]
            return
        for down, right in ((1, 1), (1, 0), (0, 1)):
            if i + down < rows and j + right < columns:
                yield from ([(i, j), *rest] for rest in paths(i + down, j + right))

    return min(sum(cost[cell] for cell in path) for path in paths(0, 0))


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 5), (5, 3), (4, 4)])
def test_the_path_is_the_cheapest_of_all(shape):
    cost = np.random.default_rng(shape[0]).normal(size=shape)
    rows, columns = warp(cost)
    assert cost[rows, columns].sum() == pytest.approx(cheapest(cost))
    steps = zip(itertools.pairwise(rows), itertools.pairwise(columns), strict=True)
    assert all((b - a, d - c) in {(1, 1), (1, 0), (0, 1)} for (a, b), (c, d) in steps)
    assert (rows[0], columns[0], rows[-1], columns[-1]) == (0, 0, shape[0] - 1, shape[1] - 1)


def test_the_path_is_that_of_transformers():
    from transformers.models.whisper.generation_whisper import _dynamic_time_warping

    cost = np.random.default_rng(3).normal(size=(13, 37))
    expected = _dynamic_time_warping(cost)
    assert [axis.tolist() for axis in warp(cost)] == [axis.tolist() for axis in expected]


def test_the_median_is_taken_over_neighbouring_frames():
    values = torch.tensor([[[0.0, 9.0, 0.0, 0.0, 1.0, 2.0, 3.0]]])
    assert median_filter(values, 3).tolist() == [[[9.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0]]]
    assert median_filter(values, 1) is values


def test_a_frame_that_all_tokens_attend_to_alike_is_no_nan():
    weights = torch.eye(3).repeat_interleave(2, dim=1)[None].clone()
    weights[:, :, 2] = 0.5
    assert find_token_onsets(weights, 1)[0] == 0
    assert find_token_onsets(torch.full((2, 3, 7), 0.25), 7)[0] == 0


def test_no_weights_are_refused():
    with pytest.raises(InputError, match="no weights to align"):
        find_token_onsets(torch.zeros(0, 3, 4))
