"""What rules remember is what they would compute: for other shapes, arguments and streams too."""

from unittest import mock

import pytest
import torch
from torch import nn

import regard
from regard.tracing.dataflow import rearrangement, rule_cache
from regard.tracing.dataflow.origins import (
    LOST,
    Exponentials,
    Origin,
    StreamPair,
    StreamSide,
    origin_of,
    set_origin,
    stream_origin,
)
from regard.tracing.dataflow.places import begin_trail, with_trail
from tracing.compositions import compose


def _moved(name, source, *args, origin=None, **kwargs):
    """The origin after a function of layout of a tensor with an origin."""
    source = source.view_as(source)
    set_origin(source, origin or stream_origin("words", -2))
    result = getattr(source, name)(*args, **kwargs)
    rearrangement.layout(name, (source, *args), kwargs, result)
    return origin_of(result if isinstance(result, torch.Tensor) else result[0])


def _moved_anew(*args, **kwargs):
    """`_moved` without what is remembered."""
    with mock.patch.object(rearrangement, "REPEATED", frozenset()):
        return _moved(*args, **kwargs)


def _fields(origin):
    trail = origin.trail and origin.trail.length
    return origin.stream, origin.axis, origin.layout, origin.pair, origin.count, trail


MOVES = [
    ("view", (3, 7, 2, 5), {}),
    ("view", (21, 10), {}),
    ("view", (3, 70), {}),
    ("reshape", (3, 7, 5, 2), {}),
    ("flatten", (0, 1), {}),
    ("transpose", (1, 2), {}),
    ("transpose", (0, 1), {}),
    ("permute", (2, 0, 1), {}),
    ("permute", (1, 0, 2), {}),
    ("unsqueeze", (1,), {}),
    ("unsqueeze", (-1,), {}),
    ("split", (5,), {"dim": 2}),
    ("split", (5,), {"dim": 1}),
    ("chunk", (2,), {"dim": 2}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), MOVES)
def test_a_remembered_move_is_the_move_computed_anew(name, args, kwargs):
    source = torch.zeros(3, 7, 10)
    expected = _fields(_moved_anew(name, source, *args, **kwargs))
    for _ in range(2):
        assert _fields(_moved(name, source, *args, **kwargs)) == expected


def test_a_second_tensor_of_the_same_shape_gets_the_same_object():
    first = _moved("view", torch.zeros(3, 7, 10), 3, 7, 2, 5)
    assert first is _moved("view", torch.ones(3, 7, 10), 3, 7, 2, 5)
    assert first.axis == -3


def test_other_streams_and_shapes_are_remembered_apart():
    source, other = torch.zeros(3, 7, 10), stream_origin("pixels", -2)
    assert _moved("transpose", source, 1, 2).stream == "words"
    assert _moved("transpose", source, 1, 2, origin=other).stream == "pixels"
    assert _moved("view", source, -1, 5).axis != _moved("view", source[:, :, :5], -1, 5).axis


def test_tokens_that_are_moved_off_their_axis_are_not_remembered():
    source = torch.zeros(3, 7, 10)
    first, second = (_moved("view", source, 3, 2, 35) for _ in range(2))
    assert first.axis == second.axis == LOST
    assert first.trail is not None
    assert first.trail is not second.trail


def test_an_origin_with_a_trail_a_stage_or_the_trail_of_a_side_is_not_shared():
    plain = stream_origin("words", -2)
    trail = begin_trail(plain, torch.zeros(3, 7, 10).shape)
    side = StreamSide("words", -2, trail=trail)
    for origin in (
        with_trail(plain, trail),
        Origin("words", -2, stage=Exponentials(torch.zeros(2))),
        Origin("words", -2, pair=StreamPair(side, StreamSide("pixels", -1))),
    ):
        assert rule_cache.share(origin) is origin
        assert not origin.is_shared


def test_equal_origins_of_two_streams_are_one_object():
    pair = StreamPair(StreamSide("words", -2), StreamSide("pixels", -1))
    first = rule_cache.share(Origin("words", -2, pair=pair))
    assert first is rule_cache.share(Origin("words", -2, pair=pair._replace()))
    assert first.is_shared
    assert first is not rule_cache.share(Origin("pixels", -2, pair=pair))


def test_indices_that_are_tensors_are_not_kept_alive():
    source = torch.zeros(3, 7, 10)
    call = ("transpose", (source, torch.tensor(1), 2), {}, source.transpose(1, 2))
    assert rule_cache.move_key(call, source, stream_origin("words", -2)) is None


def test_no_more_moves_are_remembered_than_allowed():
    with mock.patch.object(rule_cache, "MOST_REMEMBERED", 3):
        for number in range(11):
            rule_cache.remember_move(("view", number), stream_origin("words", -2))
    assert len(rule_cache._moves) <= 3


class Products(nn.Module):
    """Two layers of projections by matrices that are no linear layers, as GPT-2 has."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(31, 12)
        self.project = nn.Parameter(torch.randn(12, 36))
        self.bias = nn.Parameter(torch.zeros(36))

    def forward(self, ids):
        x = self.embed(ids)
        for _ in range(2):
            flat = torch.addmm(self.bias, x.view(-1, 12), self.project)
            heads = (part.view(*ids.shape, 3, 4).transpose(1, 2) for part in flat.split(12, dim=1))
            query, key, value = heads
            context = (query @ key.mT).softmax(-1) @ value
            x = x + context.transpose(1, 2).reshape(x.shape)
        return x


def test_projections_by_matrices_give_the_same_maps_with_and_without_a_memory():
    network, ids = Products(), torch.arange(14).view(2, 7)
    with regard.watch(network) as seen:
        network(ids)
    with mock.patch.object(rearrangement, "REPEATED", frozenset()), regard.watch(network) as anew:
        network(ids)
    assert len(seen[0]) == 2
    for shown, expected in zip(seen[0], anew[0], strict=True):
        assert shown.site == expected.site
        assert shown.kind == expected.kind
        assert torch.equal(shown.weights(), expected.weights())


@pytest.mark.parametrize("seed", range(7))
def test_a_composition_that_is_called_again_with_other_lengths_gives_the_maps_of_all(seed):
    network, inputs = compose(seed)
    shorter = tuple(ids[:, :-2] for ids in inputs)
    expected = list[torch.Tensor]()
    with torch.no_grad(), regard.watch(network) as seen:
        for ids in (inputs, inputs, shorter):
            network(*ids)
            expected.append(network.layers[0].expected[0])
    maps = [shown for shown in seen[0] if shown.site.partition("#")[0] == "layers.0"]
    for shown, weights in zip(maps, expected, strict=True):
        torch.testing.assert_close(shown.weights(), weights, atol=1e-6, rtol=0)
