"""Origins are shared, moved, and removed again."""

import gc
import weakref

import torch

from regard.tracing.dataflow import origins
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


def test_one_mark_stands_for_all_tensors_of_which_it_is_true():
    assert stream_origin("tokens", -2) is stream_origin("tokens", -2)
    assert stream_origin("tokens", -2) is not stream_origin("tokens", -1)


def test_a_token_picked_out_of_its_stream_is_a_state():
    moved = stream_origin("tokens", -2).move_axes(lambda axis: None)
    assert (moved.stream, moved.axis, moved.layout) == ("tokens", None, "state")


def test_tokens_on_two_axes_are_not_all_on_one():
    assert not stream_origin("pixels", -1, "grid").side.whole
    assert stream_origin("pixels", -1).side.whole


def test_scores_that_a_linear_map_summed_over_are_none_any_more():
    pair = StreamPair(StreamSide("a", -2), StreamSide("b", -1), True)
    assert (
        Origin("a", -2, pair=pair).after_linear(lambda axis: LOST if axis == -1 else axis).pair
        is None
    )


def test_parameters_are_constant_and_the_rest_is_unknown():
    assert origin_of(torch.nn.Parameter(torch.zeros(1))).layout == "constant"
    assert origin_of(torch.zeros(1)) is origins.UNKNOWN
    assert origin_of("text") is origins.UNKNOWN


def test_origins_are_removed_when_the_last_watcher_ends():
    tensor = torch.zeros(3)
    first, second = OriginLayer(), OriginLayer()
    set_origin(tensor, stream_origin("tokens", -1))
    second.close()
    assert origin_of(tensor).stream == "tokens"
    first.close()
    assert not vars(tensor)


def test_a_marked_tensor_is_not_kept_alive():
    tensor = torch.zeros(3)
    gone = weakref.ref(tensor)
    layer = OriginLayer()
    set_origin(tensor, stream_origin("tokens", -1))
    del tensor
    gc.collect()
    assert gone() is None
    layer.close()


def test_tensors_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(origins, "_MANY", 3)
    layer = OriginLayer()
    kept = [torch.zeros(1) for _ in range(2)]
    for each in (*kept, *(torch.zeros(1) for _ in range(5))):
        set_origin(each, stream_origin("tokens", -1))
    origins.forget_freed_tensors()
    assert 2 <= len(origins._tracked.tensors) <= 3
    layer.close()
