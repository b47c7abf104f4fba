"""Marks are shared, moved, and taken off again."""

import gc
import weakref

import torch

from regard.tracing.dataflow import origins as flow
from regard.tracing.dataflow.origins import LOST, Mark, Pair, Side, mark_of, plain, put


def test_one_mark_stands_for_all_tensors_of_which_it_is_true():
    assert plain("tokens", -2) is plain("tokens", -2)
    assert plain("tokens", -2) is not plain("tokens", -1)


def test_a_token_picked_out_of_its_stream_is_a_state():
    moved = plain("tokens", -2).moved(lambda axis: None)
    assert (moved.stream, moved.axis, moved.form) == ("tokens", None, "state")


def test_tokens_on_two_axes_are_not_all_on_one():
    assert not plain("pixels", -1, "grid").side.whole
    assert plain("pixels", -1).side.whole


def test_scores_that_a_linear_map_summed_over_are_none_any_more():
    pair = Pair(Side("a", -2), Side("b", -1), True)
    assert Mark("a", -2, pair=pair).mapped(lambda axis: LOST if axis == -1 else axis).pair is None


def test_parameters_are_constant_and_the_rest_is_unknown():
    assert mark_of(torch.nn.Parameter(torch.zeros(1))).form == "constant"
    assert mark_of(torch.zeros(1)) is flow.UNKNOWN
    assert mark_of("text") is flow.UNKNOWN


def test_marks_are_taken_off_when_the_last_watcher_ends():
    tensor = torch.zeros(3)
    flow.begin()
    flow.begin()
    put(tensor, plain("tokens", -1))
    flow.end()
    assert mark_of(tensor).stream == "tokens"
    flow.end()
    assert not vars(tensor)


def test_a_marked_tensor_is_not_kept_alive():
    tensor = torch.zeros(3)
    gone = weakref.ref(tensor)
    flow.begin()
    put(tensor, plain("tokens", -1))
    del tensor
    gc.collect()
    assert gone() is None
    flow.end()


def test_tensors_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(flow, "_MANY", 3)
    flow.begin()
    kept = [torch.zeros(1) for _ in range(2)]
    for each in (*kept, *(torch.zeros(1) for _ in range(5))):
        put(each, plain("tokens", -1))
    flow.tidy()
    assert 2 <= len(flow._marked.tensors) <= 3
    flow.end()
