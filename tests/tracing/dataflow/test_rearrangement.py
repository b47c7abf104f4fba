"""What is known of a tensor whose tokens were moved."""

import pytest
import torch

from regard.tracing.dataflow.origin_layers import OriginLayer
from regard.tracing.dataflow.origins import (
    LOST,
    Origin,
    StreamPair,
    StreamSide,
    origin_of,
    set_origin,
    stream_origin,
)
from regard.tracing.dataflow.rearrangement import index_select

SIZES = (2, 3, 5)
INDEX = torch.tensor([1, 0])


@pytest.fixture(autouse=True)
def _tracking():
    layer = OriginLayer()
    yield
    layer.close()


def origin_after(origin, *args, **kwargs):
    source = torch.zeros(SIZES)
    set_origin(source, origin)
    result = source.index_select(*args, **kwargs)
    index_select("index_select", (source, *args), kwargs, result)
    return origin_of(result)


@pytest.mark.parametrize(("args", "kwargs"), [((0, INDEX), {}), ((), {"dim": 0, "index": INDEX})])
def test_tokens_stay_where_examples_are_reordered(args, kwargs):
    origin = stream_origin("tokens", -2)
    assert origin_after(origin, *args, **kwargs) is origin


@pytest.mark.parametrize("dim", [1, -2])
def test_tokens_that_are_reordered_are_lost(dim):
    assert origin_after(stream_origin("tokens", -2), dim, INDEX).axis == LOST


def test_scores_whose_examples_are_reordered_are_rearranged():
    pair = StreamPair(StreamSide("tokens", -2), StreamSide("tokens", -1), True)
    assert origin_after(Origin("tokens", -2, pair=pair), 0, INDEX).pair.is_lost
