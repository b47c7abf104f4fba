import pytest
import torch

from regard.measures.text_variation import text_variation
from regard.types import Trace
from traces import a_trace


def traced(weights, text="abcdefg"):
    return Trace.from_weights(weights, list(text)[: weights.shape[-2]])


def shares(seed, heads=2, size=7):
    torch.manual_seed(seed)
    return torch.rand(heads, size, size).softmax(dim=-1)


def test_a_head_that_looks_the_same_varies_by_nothing():
    weights = shares(0)
    found = text_variation([traced(weights), traced(weights, "tuvwxyz")], "weights")
    assert found.tolist() == [[pytest.approx(0, abs=1e-6)] * 2]


def test_maps_without_a_key_in_common_are_as_far_apart_as_can_be():
    one, other = torch.eye(7)[None], torch.eye(7).roll(1, 0)[None]
    assert text_variation([traced(one), traced(other, "tuvwxyz")], "weights").item() == 1


def test_each_text_is_compared_with_the_next():
    texts = ["abcdefg", "tuvwxyz", "mnopqrs"]
    traces = [traced(shares(seed), text) for seed, text in enumerate(texts)]
    assert text_variation(traces, "weights").shape == (2, 2)


def test_rows_of_the_same_token_say_nothing_about_the_text():
    one, other = traced(shares(0)), traced(shares(1))
    assert text_variation([one, other], "weights").shape == (0, 2)


def test_rows_without_names_all_count():
    one, other = (Trace.from_weights(shares(n), list("abcdefg")) for n in (0, 1))
    streams = {"tokens": type(one.streams["tokens"]).positions(7)}
    plain = [Trace(streams, each.maps) for each in (one, other)]
    assert len(text_variation(plain, "weights")) == 1


def test_texts_of_unequal_length_are_compared_where_both_are():
    long = Trace.from_weights(torch.eye(11)[None], list("abcdefghijk"))
    short = Trace.from_weights(torch.eye(7)[None], list("tuvwxyz"))
    assert text_variation([long, short], "weights").item() == pytest.approx(0)


def test_maps_that_are_too_small_or_gone_are_left_out():
    tiny = [Trace.from_weights(torch.eye(3)[None], list(text)) for text in ("abc", "xyz")]
    assert len(text_variation(tiny, "weights")) == 0
    assert len(text_variation([a_trace(), a_trace()], "h.2")) == 0
    assert len(text_variation(tiny, "elsewhere")) == 0
