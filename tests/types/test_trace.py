from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.errors import InputError, ShapeError, UnknownNameError
from regard.types import Axis, DenseWeights, Gap, Tokens, Trace
from traces import a_trace

WORDS = ["我", "爱", "中国", "和", "你"]


def test_a_matrix_is_one_head():
    weights = torch.rand(5, 5)
    trace = Trace.from_weights(weights, WORDS)
    assert torch.equal(trace["weights"].weights(), weights[None])


def test_three_axes_are_the_heads_of_one_site():
    weights = torch.rand(3, 5, 5)
    assert torch.equal(Trace.from_weights(weights, WORDS)["weights"].weights(), weights)


def test_four_axes_are_layers():
    weights = torch.rand(2, 3, 5, 5)
    trace = Trace.from_weights(weights, WORDS)
    assert [each.site for each in trace] == ["layer 0", "layer 1"]
    assert torch.equal(trace["layer 1"].weights(), weights[1])


def test_a_mapping_names_its_sites():
    trace = Trace.from_weights({"h.0": torch.rand(5, 5), "h.1": torch.rand(3, 5, 5)}, WORDS)
    assert [(each.site, each.heads) for each in trace] == [("h.0", 1), ("h.1", 3)]


def test_keys_may_have_tokens_of_their_own():
    trace = Trace.from_weights(torch.rand(5, 3), WORDS, ["I", "love", "you"])
    (each,) = trace.of("cross")
    assert trace.tokens(each.rows) == Tokens(tuple(WORDS))
    assert trace.tokens(each.columns) == Tokens(("I", "love", "you"))


def test_without_keys_a_text_looks_at_itself():
    trace = Trace.from_weights(torch.rand(5, 5), Tokens.positions(5))
    (each,) = trace.of("encoder")
    assert each.rows == each.columns == Axis("tokens", (0, 1, 2, 3, 4))


@pytest.mark.parametrize("flags", ["plain", "read-only", "backwards"])
def test_arrays_of_numpy_are_taken_as_they_are(flags):
    array = np.random.default_rng(0).random((3, 5, 5))
    array = array[:, ::-1] if flags == "backwards" else array
    array.flags.writeable = flags != "read-only"
    found = Trace.from_weights({"h.0": array}, WORDS)["h.0"].weights()
    assert np.array_equal(found.numpy(), array)


def test_a_single_array_needs_no_name():
    trace = Trace.from_weights(np.eye(5, dtype=np.float32), WORDS)
    assert torch.equal(trace["weights"].weights(0), torch.eye(5))


@pytest.mark.parametrize("shape", [(5,), (1, 2, 3, 5, 5)])
def test_weights_with_other_axes_are_refused(shape, unchecked):
    message = r"expected weights with the axes .* or \(layer head query key\), got \("
    with pytest.raises(ShapeError, match=message):
        Trace.from_weights(torch.rand(shape), WORDS)


def test_a_site_cannot_have_layers():
    with pytest.raises(ShapeError, match=r"got \(2, 3, 5, 5\)"):
        Trace.from_weights({"h.0": torch.rand(2, 3, 5, 5)}, WORDS)


def test_whole_numbers_are_no_weights():
    with pytest.raises(InputError, match=r"in floating point, got torch.int64; convert them"):
        Trace.from_weights(np.eye(5, dtype=np.int64), WORDS)


def test_weights_need_one_row_for_each_token():
    with pytest.raises(InputError, match="expected weights of 5 rows and 5 columns"):
        Trace.from_weights(torch.rand(3, 3), WORDS)


def test_a_site_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(UnknownNameError, match=r"no attention site 'h.9'; .*Known: h.0, h.1, h.2"):
        a_trace()["h.9"]


def test_a_trace_is_a_sequence_of_its_maps():
    trace = a_trace()
    assert len(trace) == 3
    assert tuple(trace) == trace.maps


def test_a_trace_refuses_a_stream_that_it_does_not_have():
    trace = a_trace()
    with pytest.raises(UnknownNameError, match=r"no stream 'target'; .*Known: source"):
        Trace({"source": trace.streams["source"]}, trace.maps)


@pytest.mark.parametrize("part", ["rows", "columns", "produced"])
def test_a_trace_refuses_places_beyond_its_streams(part):
    trace = a_trace()
    axis = getattr(trace.maps[0], part)
    wrong = replace(trace.maps[0], **{part: Axis(axis.stream, (99, *axis.positions[1:]))})
    with pytest.raises(InputError, match=r"'h.0' expected places within the 1[23] tokens .* to 99"):
        Trace(trace.streams, (wrong,))


def test_a_part_has_the_weights_of_its_tokens():
    trace = a_trace()
    part = trace.part("source", 2, 9).part("target", 3, 5)
    expected = trace["h.1"].weights()[:, 3:5, 2:9]
    torch.testing.assert_close(part["h.1"].weights(), expected)


def test_a_part_of_a_stream_that_looks_at_itself_cuts_both_ways():
    weights = torch.rand(5, 5)
    part = Trace.from_weights(weights, WORDS).part("tokens", 1, 4)
    assert torch.equal(part["weights"].weights(0), weights[1:4, 1:4])


def test_the_rows_of_a_part_are_still_called_by_their_tokens():
    trace = a_trace().part("target", 1, 4)
    assert trace.tokens(trace["h.0"].rows).texts == ("我", "爱", "中国")


def test_maps_without_the_tokens_are_left_out_of_a_part():
    trace = Trace.from_weights({"early": torch.rand(5, 5), "late": torch.rand(5, 5)}, WORDS)
    late = trace["late"].part(range(3, 5), range(5))
    part = Trace(trace.streams, (trace["early"], late)).part("tokens", 0, 2)
    assert [each.site for each in part] == ["early"]


def test_a_part_keeps_the_gaps():
    assert a_trace().part("source", 0, 2).gaps == (Gap("h.3", "it only adds"),)


def test_a_part_refuses_an_unknown_stream():
    with pytest.raises(UnknownNameError, match="no stream 'sources'; did you mean 'source'"):
        a_trace().part("sources", 0, 2)


@pytest.mark.parametrize(("start", "stop"), [(0, 14), (3, 3), (-1, 2)])
def test_a_part_refuses_tokens_beyond_its_stream(start, stop):
    with pytest.raises(InputError, match=f"within 0 to 13 of 'source', got {start} to {stop}"):
        a_trace().part("source", start, stop)


def test_a_trace_shows_its_streams_maps_and_gaps():
    lines = repr(a_trace()).splitlines()
    assert lines[0] == "<Trace of target (12), source (13): 3 maps, 18 heads>"
    assert lines[1].startswith("  <cross map 'h.0'")
    assert lines[-1] == "  gap 'h.3': it only adds"


def test_a_trace_of_many_maps_shows_the_first():
    lines = repr(Trace.from_weights(torch.rand(11, 1, 5, 5), WORDS)).splitlines()
    assert len(lines) == 8
    assert lines[-1] == "  … and 5 more"


def test_tokens_of_an_axis_follow_its_places():
    trace = Trace({"x": Tokens(tuple(WORDS))}, ())
    assert trace.tokens(Axis("x", (4, 0))).texts == ("你", "我")


def test_a_trace_may_be_empty():
    assert repr(Trace({}, ())) == "<Trace of : 0 maps, 0 heads>"


def test_weights_of_a_trace_are_held_as_they_came():
    weights = torch.rand(3, 5, 5, dtype=torch.float64)
    source = Trace.from_weights(weights, WORDS)["weights"].source
    assert isinstance(source, DenseWeights)
    assert source.weights.dtype == torch.float64


def test_weights_of_each_layer_come_as_transformers_returns_them():
    layers = tuple(torch.rand(1, 3, 5, 5) for _ in range(2))
    trace = Trace.from_weights(layers, WORDS)
    assert [each.site for each in trace] == ["layer 0", "layer 1"]
    assert torch.equal(trace["layer 1"].weights(), layers[1][0])


def test_layers_that_do_not_attend_keep_their_number():
    trace = Trace.from_weights([None, torch.rand(3, 5, 5)], WORDS)
    assert [each.site for each in trace] == ["layer 1"]


def test_the_weights_of_a_batch_are_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"got a batch of 2; .* \[layer\[:1\] for layer"):
        Trace.from_weights((torch.rand(2, 3, 5, 5),), WORDS)


def test_nested_numbers_are_no_layers(unchecked):
    with pytest.raises(InputError, match="an array of weights for each layer, got list"):
        Trace.from_weights([[0.5, 0.5]], WORDS)
