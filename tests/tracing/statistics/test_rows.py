import pytest
import torch

from regard.masks import causal, padding
from regard.tracing.assembly.stacking import StackedCall
from regard.tracing.recording.record import CallRecord
from regard.tracing.statistics import rows as module
from regard.tracing.statistics.rows import SiteRows
from regard.tracing.statistics.streams import StreamTokens

HEADS, LENGTH = 3, 5


def weights(batch=2, queries=LENGTH, keys=LENGTH):
    return torch.rand(batch, HEADS, queries, keys).softmax(-1)


def of(found, places=None, parts=1, streams=("x", "x"), kinds=None):
    """Rows of weights that somebody computed by hand; every token is real."""
    batch, heads, queries, keys = found.shape
    sides = (torch.zeros(batch, heads, 0, 2), torch.zeros(batch, heads, 0, 2))
    call = CallRecord("here", *streams, *sides, weights=found, key_count=keys, windows=parts)
    places = list(range(batch // parts)) if places is None else places
    above = StreamTokens(torch.ones(len(places), queries, dtype=torch.bool))
    across = StreamTokens(torch.ones(len(places), keys, dtype=torch.bool), kinds)
    return SiteRows(StackedCall(call, places, [queries] * len(places)), above, across)


def test_numbers_are_those_of_the_rows():
    found = weights()
    entropy = -(found * found.log()).sum(-1)
    torch.testing.assert_close(of(found).numbers["entropy"], entropy)
    torch.testing.assert_close(of(found).numbers["confidence"], found.amax(-1))


def test_examples_are_found_in_the_rows_of_the_batch_that_they_had():
    found = weights()
    moved = of(found, [1, 0, -1])
    expected = found.amax(-1)
    torch.testing.assert_close(moved.numbers["confidence"][:2], expected[[1, 0]])
    assert moved.live.any(dim=1).sum(dim=1).tolist() == [LENGTH, LENGTH, 0]


def test_windows_are_rows_of_one_example():
    found = weights(batch=6)
    one = of(found, parts=3)
    expected = found.amax(-1).view(2, 3, HEADS, LENGTH).movedim(1, 2).flatten(2)
    torch.testing.assert_close(one.numbers["confidence"], expected)
    assert one.visible.shape[2] == one.live.shape[2] == 3 * LENGTH


def test_a_row_that_sees_nothing_is_not_live():
    found = weights()
    found[0, 1, 2] = 0
    live = of(found).live
    assert not live[0, 1, 2]
    assert live.sum() == live.numel() - 1


def test_rows_that_give_nothing_to_what_follows_see_what_came_before():
    both = torch.cat([weights(1).tril(), weights(1)])
    found = of(both).visible.expand(2, HEADS, LENGTH)
    assert found[0, 0].tolist() == [1, 2, 3, 4, 5]
    assert found[1, 0].tolist() == [LENGTH] * LENGTH


def test_rows_of_another_text_see_all_of_it():
    found = of(weights(queries=2).tril(), streams=("x", "y")).visible
    assert found.unique().tolist() == [LENGTH]


@pytest.mark.parametrize("strip", [1, 11, 1 << 22])
def test_what_a_mask_shows_is_counted_in_strips(monkeypatch, strip):
    monkeypatch.setattr(module, "MAX_MASK_STRIP", strip)
    real = torch.tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]]).bool()
    mask = causal() & padding(real)
    found = of(weights())._count_visible(mask).expand(2, 1, LENGTH)
    assert torch.equal(found, mask.dense(LENGTH, LENGTH).sum(-1))
    assert torch.equal(of(weights(), [1, 0])._count_visible(mask), found[[1, 0]])


def test_the_mass_on_kinds_adds_up():
    found = weights()
    kinds = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 0, 0, 2]])
    by_kind = of(found, kinds=kinds).by_kind(4)
    torch.testing.assert_close(by_kind[0, :, :, 1], found[0, :, :, 1:3].sum(-1))
    torch.testing.assert_close(by_kind.sum(-1), torch.ones(2, HEADS, LENGTH))
    assert not by_kind[..., 3].any()


def test_without_kinds_no_mass_is_told():
    assert of(weights()).by_kind(3) is None
