import pytest
import torch

from regard.kernels.observe import ObserveOptions, observe
from regard.kernels.observe.full_weights import atlas_of, statistics_of, top_of, weigh
from traces import BIASES, DIM, HEADS, KEY_HEADS, MASKS, ROWS, a_map, a_scoring, by_definition

EVERY_SCORING = [(mask, "none") for mask in MASKS] + [("padding", bias) for bias in BIASES]


@pytest.mark.parametrize(("mask", "bias"), EVERY_SCORING)
def test_all_weights_at_once_are_those_of_the_definition(mask, bias):
    each = a_map(a_scoring(mask, bias))
    found = weigh(each.source.query[None], each.source.key[None], each.source.scoring)
    torch.testing.assert_close(found[0].double(), by_definition(each), atol=1e-5, rtol=0)


def test_gradients_flow_through_weights_held_whole():
    query = torch.randn(1, HEADS, ROWS, DIM, dtype=torch.float64, requires_grad=True)
    key = torch.randn(1, KEY_HEADS, ROWS, DIM, dtype=torch.float64, requires_grad=True)
    scoring = a_scoring("causal", "none")
    assert torch.autograd.gradcheck(lambda *sides: weigh(*sides, scoring), (query, key))


@pytest.fixture
def observed():
    query, key = torch.randn(2, 3, 29, DIM), torch.randn(2, 3, 37, DIM)
    terms = {"mask": MASKS["window"], "offset": 5}
    seen = observe(query, key, key, keep=ObserveOptions(top=5, atlas=4), **terms)
    scoring = seen.scoring
    return seen, weigh(query, key, scoring)


def test_the_numbers_of_rows_are_those_of_the_pass(observed):
    seen, weights = observed
    found = statistics_of(weights, offset=5)
    for name, expected in vars(seen.statistics).items():
        came = getattr(found, name)
        assert came.dtype == expected.dtype
        torch.testing.assert_close(came, expected, atol=1e-5, rtol=1e-5)


def test_the_largest_weights_are_those_of_the_pass(observed):
    seen, weights = observed
    found = top_of(weights, 5)
    torch.testing.assert_close(found.weights, seen.top.weights, atol=1e-6, rtol=0)
    assert torch.equal(found.keys, seen.top.keys)


def test_more_of_the_largest_than_there_are_keys_are_nothing():
    found = top_of(torch.tensor([[[0.25, 0.75]]]), 3)
    assert found.weights.tolist() == [[[0.75, 0.25, 0.0]]]
    assert found.keys.tolist() == [[[1, 0, -1]]]


def test_the_cells_are_those_of_the_pass(observed):
    seen, weights = observed
    found = atlas_of(weights, seen.atlas.rows, seen.atlas.columns)
    torch.testing.assert_close(found.mean, seen.atlas.mean, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.largest, seen.atlas.largest, atol=1e-6, rtol=0)


def test_rows_without_weight_have_no_largest_key():
    found = statistics_of(torch.zeros(1, 2, 3))
    assert found.largest_key.tolist() == [[-1, -1]]
    assert found.entropy.tolist() == [[0.0, 0.0]]
