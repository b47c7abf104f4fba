"""The graph of attention flow: what is left out of it, and what never is."""

import numpy as np
import pytest
import torch

from attribution.networks import traced
from regard.attribution.flow import CutEdges, FlowNetwork
from regard.attribution.layer_graph import layer_graph
from regard.types import Trace


def a_trace(layers, tokens=7):
    weights = (torch.randn(layers, 2, tokens, tokens).double() * 3).softmax(-1)
    return Trace.from_weights(weights, [str(place) for place in range(tokens)])


def flows(trace, edges, start=2):
    found = layer_graph(trace)
    graph = FlowNetwork(found, start, range(len(found.columns)), edges)
    return np.array([graph.flow(number) for number in range(len(found.columns))])


def test_what_was_lost_counts_where_it_leaves_and_where_it_comes():
    lost = CutEdges(np.array([3, 4]), np.array([0, 1, 2]), np.array([0.5, 0.25]), np.full(3, 0.25))
    inside = np.array([True, False, True, False, True])
    assert lost.across(inside) == 0.25
    inside[3] = True
    assert lost.across(inside) == 0.25  # no more than came to the one outside
    assert lost.across(np.ones(5, dtype=bool)) == 0


@pytest.mark.parametrize("layers", [1, 2])
def test_nothing_is_left_out_below_the_token_and_above_the_inputs(layers):
    trace = a_trace(layers)
    assert np.array_equal(flows(trace, 1), flows(trace, 7))


def test_between_them_only_the_largest_edges_are_kept():
    trace = a_trace(3)
    few, all_of_them = flows(trace, 1), flows(trace, 7)
    assert (few[:, 0] < all_of_them[:, 0]).any()
    assert (few[:, 1] >= all_of_them[:, 0]).all()


def test_inputs_that_nothing_leads_to_have_no_flow():
    found = layer_graph(traced("marian"), queries="source", keys="target")
    assert FlowNetwork(found, 0, [3], 7).flow(0) == (0, 0)


def test_tokens_without_a_row_of_a_layer_pass_as_they_are():
    trace = a_trace(2)
    late = trace.maps[0].part(range(3, 6), range(7))
    found = flows(Trace(trace.streams, (late, trace.maps[1])), 7, start=0)
    expected = trace.maps[1].weights().mean(0)[0, 1] / 2  # straight down, and by the late rows
    by_late = (late.weights().mean(0)[:, 1] / 2).clamp_max(1)
    down = trace.maps[1].weights().mean(0)[0, 3:6] / 2
    least = float(expected + torch.minimum(by_late, down).sum())
    assert found[1, 0] == pytest.approx(least, abs=1e-8)
