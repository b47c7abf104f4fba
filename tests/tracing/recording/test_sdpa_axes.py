"""Shapes that scaled_dot_product_attention accepts: broadcast, grouped, folded or without axes."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing.recording.sdpa import describe_sdpa

SHAPES = {
    "broadcast query": ((1, 2, 5, 4), (3, 2, 7, 4), (3, 2, 7, 4)),
    "broadcast key": ((3, 2, 5, 4), (1, 2, 7, 4), (3, 2, 7, 4)),
    "broadcast value": ((3, 2, 5, 4), (3, 2, 7, 4), (1, 1, 7, 4)),
    "one head of keys": ((3, 4, 5, 4), (3, 1, 7, 4), (3, 4, 7, 4)),
    "one head of queries": ((3, 1, 5, 4), (3, 2, 7, 4), (3, 2, 7, 4)),
    "query without batch": ((2, 5, 4), (3, 2, 7, 4), (3, 2, 7, 4)),
    "query without heads": ((5, 4), (3, 2, 7, 4), (3, 2, 7, 4)),
    "keys without batch": ((3, 2, 5, 4), (2, 7, 4), (2, 7, 4)),
}
GROUPED = {
    "as many values as queries": ((3, 4, 5, 4), (3, 2, 7, 4), (3, 4, 7, 4)),
    "fewer values than keys": ((3, 4, 5, 4), (3, 4, 7, 4), (3, 2, 7, 4)),
    "broadcast query": ((1, 4, 5, 4), (3, 2, 7, 4), (3, 2, 7, 4)),
}


class Sdpa(nn.Module):
    """One call of scaled_dot_product_attention on whatever it is called with."""

    def forward(self, examples, sides, **options):
        return F.scaled_dot_product_attention(*sides, **options)


def sides_of(shapes):
    torch.manual_seed(5)
    return [torch.randn(shape) for shape in shapes]


def weights_of(query, key):
    heads = query.shape[-3] if query.dim() > 2 else 1
    if heads > key.shape[-3] > 1:
        key = key.repeat_interleave(heads // key.shape[-3], dim=-3)
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("beside", [False, True])
def test_broadcast_sides_give_the_maps_of_every_example(name, beside):
    model, sides, examples = Sdpa(), sides_of(SHAPES[name]), torch.zeros(3, 5)
    plain = model(examples, sides)
    with regard.watch(model, beside=beside) as seen:
        watched = model(examples, sides)
    torch.testing.assert_close(watched, plain)
    weights = weights_of(*sides[:2])
    for example in range(3):
        torch.testing.assert_close(seen[example].maps[0].weights(), weights[example])


@pytest.mark.parametrize("name", GROUPED)
def test_heads_of_keys_and_values_may_be_grouped_differently(name):
    model, sides, examples = Sdpa(), sides_of(GROUPED[name]), torch.zeros(3, 5)
    plain = model(examples, sides, enable_gqa=True)
    with regard.watch(model) as seen:
        torch.testing.assert_close(model(examples, sides, enable_gqa=True), plain)
    weights = weights_of(*sides[:2])
    torch.testing.assert_close(seen[2].maps[0].weights(), weights[2])


def test_a_fifth_axis_with_a_mask_of_its_own_gives_a_map_for_each_part():
    sides = sides_of([(3, 2, 2, 5, 4), (3, 2, 1, 7, 4), (3, 2, 1, 7, 4)])
    mask = torch.rand(3, 2, 1, 5, 7) > 0.3
    mask[..., 0] = True
    model, examples = Sdpa(), torch.zeros(3, 5)
    plain = model(examples, sides, attn_mask=mask)
    with regard.watch(model) as seen:
        torch.testing.assert_close(model(examples, sides, attn_mask=mask), plain)
    scores = sides[0] @ sides[1].mT / 2
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    torch.testing.assert_close(seen[1].maps[1].weights(), weights[1, 1])


def test_a_single_leading_axis_that_is_not_the_batch_holds_heads():
    model, sides = Sdpa(), sides_of([(2, 5, 4)] * 3)
    with regard.watch(model) as seen:
        model(torch.zeros(3, 5), sides)
    assert seen[0].maps[0].shape == (2, 5, 5)


@pytest.mark.parametrize("shape", [(0, 2, 5, 4), (3, 0, 5, 4)])
def test_a_call_without_examples_or_heads_has_no_maps(shape):
    model, sides = Sdpa(), sides_of([shape] * 3)
    with regard.watch(model) as seen:
        assert model(torch.zeros(shape[0], 5), sides).shape == shape
    assert [trace.maps for trace in seen] == [()] * shape[0]


def test_arguments_that_torch_refuses_get_the_error_of_torch():
    with pytest.raises(RuntimeError, match="must match"), regard.watch(Sdpa()) as _:
        Sdpa()(torch.zeros(3, 5), sides_of([(3, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)]))


def test_a_call_that_cannot_be_described_says_why():
    unmapped = describe_sdpa(*sides_of([(3, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)]))
    assert "its arguments cannot be read" in unmapped.reason
