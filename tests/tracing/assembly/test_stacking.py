import pytest
import torch

import regard
from tracing.decoders import Decoder, Growing, step_by_step

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, LENGTH, WINDOW = 3, 11, 4


class Sliding(Growing):
    """Only the last keys are held."""

    def extend(self, *new):
        whole = super().extend(*new)
        self.held = [each[:, :, -WINDOW + 1 :] for each in whole]
        return whole


@pytest.fixture
def slid():
    torch.manual_seed(3)
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, LENGTH))
    caches = [Sliding() for _ in model.layers]
    with regard.watch(model, top=2) as seen, torch.no_grad():
        step_by_step(model, ids, caches=caches)
    return seen


def test_rows_of_a_sliding_cache_stand_over_their_own_keys(slid):
    weights = slid[0].maps[0].weights()
    band = torch.ones(LENGTH, LENGTH).tril().triu(1 - WINDOW).bool()
    assert (weights[:, band] > 0).all()
    assert (weights[:, ~band] == 0).all()


def test_the_largest_key_of_a_sliding_cache_counts_from_the_first_token(slid):
    for each in slid[1]:
        assert torch.equal(each.statistics.largest_key, each.weights().argmax(-1).int())
        assert torch.equal(each.top.keys[..., 0], each.statistics.largest_key)


def test_what_a_sliding_cache_has_forgotten_gets_no_weight(slid):
    for each in slid[2]:
        torch.testing.assert_close(each.statistics.on_first, each.weights()[:, :, 0])


def test_what_rows_gave_to_their_neighbours_is_that_of_their_weights(slid):
    each = slid[0].maps[1]
    weights = each.weights()
    before = torch.cat([torch.zeros(3, 1), weights.diagonal(-1, 1, 2)], dim=1)
    torch.testing.assert_close(each.statistics.on_self, weights.diagonal(0, 1, 2))
    torch.testing.assert_close(each.statistics.on_previous, before)
    assert (each.statistics.on_future == 0).all()


@torch.no_grad()
def test_numbers_of_rows_move_with_their_rows():
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, 7))
    with regard.watch(model, top=2) as moved:
        final = step_by_step(model, ids, {5: [2, 2, 0], 6: [1, 2, 0]})
    with regard.watch(model, top=2) as whole:
        model(final)
    for one, other in zip(moved, whole, strict=True):
        for each, twin in zip(one, other, strict=True):
            for name, numbers in vars(each.statistics).items():
                torch.testing.assert_close(numbers, getattr(twin.statistics, name))
            torch.testing.assert_close(each.top.weights, twin.top.weights)


@torch.no_grad()
@pytest.mark.parametrize("keep", ["summary", "windows", "dense"])
def test_moved_rows_are_kept_in_every_form(keep):
    model, ids = Decoder().eval(), torch.randint(31, (BATCH, 7))
    with regard.watch(model, keep=keep) as moved:
        step_by_step(model, ids, {5: [2, 2, 0]})
    assert [each.shape for each in moved[0]] == [(3, 7, 7)] * 2
