"""Attention flow against a solver that follows the textbook, and its bounds."""

import sys
from collections import deque

import pytest
import torch

from attribution.networks import LENGTH, SOURCE, traced, used
from measures.attending import a_decoder, a_text
from regard.attribution import flow as flow_module
from regard.attribution.flow import UNIT, attention_flow
from regard.attribution.rollout import rollout
from regard.errors import InputError
from regard.types import Trace

TOKENS, LAYERS = 5, 3


def by_the_textbook(capacities, source, sink):
    """Edmonds and Karp 1972: along a shortest path that has room, as often as there is one."""
    left, total = capacities.clone().double(), 0.0
    while True:
        before, waiting = {source: source}, deque([source])
        while waiting and sink not in before:
            node = waiting.popleft()
            for other in (left[node] > 1e-13).nonzero()[:, 0].tolist():
                if other not in before:
                    before[other] = node
                    waiting.append(other)
        if sink not in before:
            return total
        path, node = [], sink
        while node != source:
            path.append((before[node], node))
            node = before[node]
        room = min(float(left[edge]) for edge in path)
        for above, below in path:
            left[above, below] -= room
            left[below, above] += room
        total += room


def a_graph(weights):
    """Capacities between tokens of neighbouring layers; the inputs come first."""
    layers, _, size, _ = weights.shape
    found = torch.zeros((layers + 1) * size, (layers + 1) * size, dtype=torch.float64)
    for layer, each in enumerate(weights.double().mean(1) / 2 + torch.eye(size) / 2):
        found[(layer + 1) * size : (layer + 2) * size, layer * size : (layer + 1) * size] = each
    return found


def some_weights(sharp=3.0, causal=False, tokens=TOKENS):
    scores = torch.randn(LAYERS, 2, tokens, tokens).double() * sharp
    if causal:
        scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -torch.inf)
    return scores.softmax(-1)


def a_trace(weights):
    return Trace.from_weights(weights, [str(place) for place in range(weights.shape[-1])])


@pytest.mark.parametrize("sharp", [0.3, 3.0, 9.0])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_flow_of_the_textbook(sharp, causal):
    weights = some_weights(sharp, causal)
    graph, query = a_graph(weights), 3
    expected = [by_the_textbook(graph, LAYERS * TOKENS + query, sink) for sink in range(TOKENS)]
    found = attention_flow(a_trace(weights), query)
    torch.testing.assert_close(found.least, torch.tensor(expected).double(), atol=1e-6, rtol=0)
    assert found.error < 1e-6


def test_both_bounds_hold_of_the_true_flow():
    weights = some_weights(tokens=7)
    graph, found = a_graph(weights), attention_flow(a_trace(weights), -1)
    for sink in range(7):
        flow = by_the_textbook(graph, LAYERS * 7 + 6, sink)
        assert found.least[sink] - 1e-12 <= flow <= found.most[sink] + 1e-12


def test_the_error_is_less_than_a_unit_for_each_edge():
    weights = some_weights(tokens=13)
    edges = LAYERS * 13 * 14
    assert 0 < attention_flow(a_trace(weights), 5).error < edges / UNIT


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("edges", [1, 3, 7])
def test_fewer_edges_leave_the_flow_between_the_bounds(edges, causal):
    trace = a_trace(some_weights(causal=causal, tokens=11))
    whole, some = attention_flow(trace, -1), attention_flow(trace, -1, edges=edges)
    assert (some.least <= whole.least + 1e-6).all()
    assert (whole.least <= some.most + 1e-6).all()
    assert some.error > 1e-3
    assert (some.most <= 1).all()


def test_more_edges_bring_the_bounds_together():
    trace = a_trace(some_weights(tokens=23))
    errors = [attention_flow(trace, 4, edges=edges).error for edges in (2, 5, 11, 23)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-6


def test_a_large_graph_keeps_the_largest_edges_of_each_token(monkeypatch):
    trace = a_trace(some_weights(tokens=11))
    few = attention_flow(trace, 4, edges=2)
    monkeypatch.setattr(flow_module, "MOST_EDGES", 3 * 11 * 2)
    torch.testing.assert_close(attention_flow(trace, 4).least, few.least)


def test_a_decoder_flows_from_the_inputs_of_both_sides():
    trace = traced("marian")
    across, itself = attention_flow(trace, 3), attention_flow(trace, 3, keys="target")
    assert across.least.shape == (11,)
    assert (across.least > rollout(trace)[3] - 1e-6).all()
    assert itself.least[3] > 0.06
    assert not itself.most[4:].any()


def a_joint_graph(layers):
    """Source and target side by side after each layer; what does not look passes as it is."""
    size, places = SOURCE + LENGTH, {"source": 0, "target": SOURCE}
    found = torch.zeros((len(layers) + 1) * size, (len(layers) + 1) * size, dtype=torch.float64)
    for number, (each, weights, _) in enumerate(layers):
        layer, half = torch.eye(size, dtype=torch.float64) * 9, weights.mean(0) / 2
        row, column = places[each.rows.stream], places[each.columns.stream]
        layer[row : row + len(half)] /= 18
        layer[row : row + len(half), column : column + half.shape[1]] += half
        above, below = (slice(n * size, (n + 1) * size) for n in (number + 1, number))
        found[above, below] = layer
    return found


@pytest.mark.parametrize("sink", [0, 5, SOURCE + 2])
def test_what_an_encoder_mixed_is_in_the_graph(sink):
    graph, query = a_joint_graph(used("marian")), 4
    source = len(graph) - LENGTH + query
    keys = "source" if sink < SOURCE else "target"
    found = attention_flow(traced("marian"), query, inputs=[sink % SOURCE], keys=keys)
    expected = torch.tensor([by_the_textbook(graph, source, sink)]).double()
    torch.testing.assert_close(found.least, expected, atol=1e-6, rtol=0)


def test_later_tokens_give_nothing_to_earlier_ones():
    assert not attention_flow(a_decoder(), 4).most[5:].any()


def test_some_inputs_alone_are_as_among_all():
    trace = a_text()
    whole, some = attention_flow(trace, 2), attention_flow(trace, 2, inputs=[7, -1])
    torch.testing.assert_close(some.least, whole.least[[7, 10]])


def test_a_stream_that_never_looks_is_its_own_flow():
    (each, *_) = traced("marian").of("cross")
    trace = Trace(traced("marian").streams, (each,))
    found = attention_flow(trace, 2, queries="source", keys="source")
    assert found.least.tolist() == found.most.tolist() == [0, 0, 1, *[0] * 8]


def test_chosen_heads_alone_carry():
    heads, weights = {"layer 0": [1], "layer 1": [0], "layer 2": [1]}, some_weights()
    chosen = torch.stack([weights[0, [1]], weights[1, [0]], weights[2, [1]]])
    found = attention_flow(a_trace(weights), 0, heads=heads).least
    torch.testing.assert_close(found, attention_flow(a_trace(chosen), 0).least)


def test_weights_of_a_model_are_those_that_it_used():
    graph = a_graph(torch.stack([each.weights for each in used("bert")]))
    expected = by_the_textbook(graph, 2 * 7, 3)
    found = attention_flow(traced("bert"), 0, inputs=[3])
    torch.testing.assert_close(found.least, torch.tensor([expected]).double(), atol=1e-6, rtol=0)


def test_without_scipy_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    with pytest.raises(InputError, match=r"needs scipy; .* pip install 'regard\[flow\]'"):
        attention_flow(a_text(), 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"inputs": [11]}, r"expected some of the 11 inputs, got \[11\]"),
        ({"inputs": []}, r"expected some of the 11 inputs, got \[\]"),
        ({"edges": 0}, "expected to keep one edge of each token at least, got 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        attention_flow(a_text(), 0, **wrong)
