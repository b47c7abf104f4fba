from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.errors import FileError
from regard.kernels.observe import Scoring
from regard.storage import load_trace, reading, save_trace, writing
from regard.types import AttentionMap, Axis, DenseWeights, Gap, RecomputableWeights, Tokens, Trace
from storage.first import the_first
from storage.sameness import assert_same
from traces import BIASES, COLUMNS, HEADS, MASKS, ROWS, a_map, a_scoring, a_trace

HOSTILE = ["", "../../etc/passwd", "</script>", '"\\\x00\n', "__metadata__", "$tensor", "x" * 999]
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.fixture(params=["whole", "mapped", "mapped head by head"])
def way(request, monkeypatch):
    """The ways that a file can take, by its size."""
    if request.param != "whole":
        monkeypatch.setattr(reading, "MAX_WHOLE_FILE", 0)
        monkeypatch.setattr(reading, "MAPPED_AT_ONCE", 1)
    if request.param == "mapped head by head":
        monkeypatch.setattr(writing, "LARGE_TENSOR", 1)


@pytest.fixture
def again(tmp_path, way):
    def written_and_read(trace):
        save_trace(trace, tmp_path / "a.trace")
        return load_trace(tmp_path / "a.trace")

    return written_and_read


def trace_of(*maps, streams=None):
    usual = {"target": Tokens.positions(ROWS + 1), "source": Tokens.positions(COLUMNS)}
    return Trace(streams or usual, maps)


def test_a_trace_with_every_source_comes_back_exactly(again):
    trace = a_trace()
    assert_same(again(trace), trace)


@pytest.mark.parametrize("dtype", DTYPES)
def test_queries_and_keys_come_back_in_their_own_dtype(again, dtype):
    trace = trace_of(a_map(dtype=dtype))
    assert_same(again(trace), trace)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dense_weights_come_back_in_their_own_dtype(again, dtype):
    trace = Trace.from_weights(torch.rand(3, 5, 7).to(dtype), list("abcde"), list("abcdefg"))
    assert_same(again(trace), trace)


@pytest.mark.parametrize("mask", MASKS)
def test_a_mask_of_each_kind_comes_back_exactly(again, mask):
    trace = trace_of(a_map(a_scoring(mask, "none")))
    assert_same(again(trace), trace)


@pytest.mark.parametrize("bias", BIASES)
def test_a_bias_of_each_kind_comes_back_exactly(again, bias):
    trace = trace_of(a_map(a_scoring("none", bias)))
    assert_same(again(trace), trace)


def test_a_plain_scoring_comes_back_exactly(again):
    trace = trace_of(a_map(Scoring()))
    assert_same(again(trace), trace)


def test_numbers_that_are_not_finite_come_back_bit_by_bit(again):
    strange = torch.tensor([[0.0, -0.0, torch.nan, torch.inf, -torch.inf]])
    trace = Trace.from_weights(strange, ["a"], list("abcde"))
    assert_same(again(trace), trace)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_of_sites_and_streams_come_back_exactly(again, name):
    axis = Axis(name, (0, 1, 2))
    each = AttentionMap(name, "decoder", axis, axis, DenseWeights(torch.rand(2, 3, 3)))
    trace = Trace({name: Tokens((name, "我", "👩‍👩‍👧"))}, (each,), (Gap(name, name),))
    assert_same(again(trace), trace)


def test_places_in_any_order_come_back_exactly(again):
    rows = Axis("x", (4, 5, 6, 0, 0, 9, 8))
    each = AttentionMap("h", "encoder", rows, rows, DenseWeights(torch.rand(2, 7, 7)))
    trace = Trace({"x": Tokens.positions(11)}, (each,))
    assert_same(again(trace), trace)


def test_the_grid_of_an_image_comes_back_exactly(again):
    trace = trace_of(streams={"image": Tokens(tuple("abcdef"), grid=(2, 3))})
    assert_same(again(trace), trace)


def test_an_empty_trace_comes_back_exactly(again):
    assert_same(again(Trace({}, ())), Trace({}, ()))


def test_a_map_without_rows_comes_back_exactly(again):
    trace = Trace.from_weights(torch.rand(3, 0, 5), [], list("abcde"))
    assert_same(again(trace), trace)


def test_whether_weights_are_exact_comes_back(again):
    each = a_map()
    rounded = replace(each, source=replace(each.source, exact=False))
    assert not again(trace_of(rounded))["h.0"].source.exact


def test_a_loaded_map_computes_the_same_windows(again):
    each = a_map()
    found = again(trace_of(each))["h.0"]
    assert isinstance(found.source, RecomputableWeights)
    assert torch.equal(found.weights(), each.weights())


def test_a_part_of_a_map_computes_the_same_weights_when_loaded(again):
    each = a_map().select([4, 1]).part(range(2, 7), range(3, 8))
    assert torch.equal(again(trace_of(each))["h.0"].weights(), each.weights())


def test_tensors_that_lie_in_another_order_come_back_exactly(again):
    weights = torch.rand(7, 5, 3).permute(2, 1, 0)
    trace = Trace.from_weights(weights, list("abcde"), list("abcdefg"))
    assert_same(again(trace), trace)


def test_weights_that_ask_for_gradients_come_back_as_constants(again):
    trace = Trace.from_weights(torch.rand(3, 5, 5, requires_grad=True), list("abcde"))
    assert not again(trace)["weights"].source.weights.requires_grad


def test_maps_that_share_an_axis_share_it_again(again):
    found = again(a_trace())
    assert found["h.0"].columns is found["h.1"].columns


@pytest.mark.parametrize("tree", [{}, [], {"streams": [], "maps": [{}], "gaps": []}, None])
def test_a_file_that_describes_no_trace_is_refused(tmp_path, tree):
    path = tmp_path / "a.trace"
    writing.write_tree(path, tree)
    with pytest.raises(FileError, match=r"a.trace holds no whole trace: expected its streams"):
        load_trace(path)


def test_a_trace_that_contradicts_itself_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(AttentionMap, "__post_init__", lambda self: None)
    save_trace(trace_of(replace(a_map(), columns=Axis("source", (0,)))), tmp_path / "a.trace")
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"expected weights of 11 rows and 1 columns.*write it"):
        load_trace(tmp_path / "a.trace")


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_gradients_come_back_exactly(again, dtype):
    sides = {"values": torch.rand(2, COLUMNS, 7), "gradient": torch.rand(HEADS, ROWS, 7)}
    sides["output_projection"] = torch.rand(HEADS, 7, 17)
    trace = trace_of(replace(a_map(), **{name: each.to(dtype) for name, each in sides.items()}))
    assert_same(again(trace), trace)


def test_the_numbers_of_chosen_heads_come_back_exactly(again):
    trace = trace_of(a_map().select([4, 1]))
    assert_same(again(trace), trace)


def test_a_file_of_the_first_format_still_loads(way):
    assert_same(load_trace(Path(__file__).with_name("format1.trace")), the_first())


def test_the_first_trace_comes_back_in_the_format_of_today(again):
    assert_same(again(the_first()), the_first())
