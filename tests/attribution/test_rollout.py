"""Rollout against the product of matrices that the paper writes."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch

import regard
from attribution.networks import ALONE, BOTH, LENGTH, MAKERS, SOURCE, traced, used
from measures.attending import a_decoder, a_text
from regard.attribution.rollout import rollout, rollout_from
from regard.errors import InputError, UnknownNameError
from regard.types import Axis, SummaryOnly, Trace


def by_the_paper(layers):
    """The product of 0.5 A + 0.5 I over layers, the last on the left."""
    product = torch.eye(layers[0].shape[-1], dtype=torch.float64)
    for weights in layers:
        mixed = 0.5 * weights.double().mean(0) + 0.5 * torch.eye(weights.shape[-1])
        product = (mixed / mixed.sum(-1, keepdim=True)) @ product
    return product


def by_one_matrix(name):
    """Source and target tokens side by side, and each layer a matrix over all of them."""
    size, places = SOURCE + LENGTH, {"source": 0, "target": SOURCE}
    product = torch.eye(size, dtype=torch.float64)
    for each, weights, _ in used(name):
        layer, half = torch.eye(size, dtype=torch.float64), weights.mean(0) / 2
        row, column = places[each.rows.stream], places[each.columns.stream]
        layer[row : row + len(half)] /= 2
        layer[row : row + len(half), column : column + half.shape[1]] += half
        product = layer @ product
    return product


@pytest.mark.parametrize("name", ALONE)
def test_it_is_the_product_of_the_paper(name):
    expected = by_the_paper([each.weights for each in used(name)])
    torch.testing.assert_close(rollout(traced(name)), expected, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("name", BOTH)
def test_a_decoder_takes_from_what_the_encoder_has_made(name):
    whole = by_one_matrix(name)
    close = {"atol": 1e-9, "rtol": 1e-7}
    torch.testing.assert_close(rollout(traced(name)), whole[SOURCE:, :SOURCE], **close)
    torch.testing.assert_close(
        rollout(traced(name), keys="target"), whole[SOURCE:, SOURCE:], **close
    )
    torch.testing.assert_close(
        rollout(traced(name), queries="source"), whole[:SOURCE, :SOURCE], **close
    )


@pytest.mark.parametrize("name", MAKERS)
def test_one_row_alone_is_that_row(name):
    trace = traced(name)
    rows = torch.stack([rollout_from(trace, query) for query in range(LENGTH)])
    torch.testing.assert_close(rows, rollout(trace), atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("sink", [False, True])
def test_rows_sum_to_one_also_where_weights_do_not(sink):
    trace = a_text(sink=sink)
    assert (trace.maps[0].weights().sum(-1) < 0.999).any() == sink
    torch.testing.assert_close(rollout(trace).sum(1), torch.ones(11).double())


def test_nothing_comes_from_what_follows():
    assert not rollout(a_decoder()).triu(1).any()


def test_a_row_that_looks_at_nothing_stays_itself():
    weights = torch.zeros(1, 2, 3, 3)
    torch.testing.assert_close(
        rollout(Trace.from_weights(weights, ["我", "爱", "你"])), torch.eye(3).double()
    )


@pytest.mark.parametrize("heads", [[2, 0], {"encoder.layer.1.attention.self": [1]}])
def test_heads_can_be_chosen(heads):
    chosen = [[2, 0], [2, 0]] if isinstance(heads, list) else [[0, 1, 2], [1]]
    weights = [each.weights[some] for each, some in zip(used("bert"), chosen, strict=True)]
    torch.testing.assert_close(rollout(traced("bert"), heads=heads), by_the_paper(weights))
    row = rollout_from(traced("bert"), 2, heads=heads)
    torch.testing.assert_close(row, by_the_paper(weights)[2])


def test_it_fits_a_heatmap_as_an_aggregate():
    trace = traced("marian")
    drawn = regard.heatmap(trace, aggregates={"rollout": rollout(trace)}, site="rollout")
    assert "rollout" in repr(drawn)


def test_one_row_looks_at_strips_of_rows_that_matter_only(monkeypatch):
    trace, seen = a_decoder(), []
    own = type(trace.maps[0]).row_strips
    monkeypatch.setattr(
        type(trace.maps[0]),
        "row_strips",
        lambda self, most=1: seen.append(self.shape) or own(self, 1),
    )
    rollout_from(trace, 4)
    assert seen == [(3, 1, 11)]


def test_too_many_shares_are_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(import_module("regard.attribution.rollout"), "MOST_SHARES", 48)
    with pytest.raises(InputError, match=r"hold 7 x 7 shares; ask for one row .* rollout_from"):
        rollout(traced("bert"))
    assert rollout_from(traced("bert"), 0).shape == (7,)


def test_a_query_beyond_the_rows_is_refused():
    with pytest.raises(InputError, match="expected a query within the 7 rows, got 7"):
        rollout_from(traced("bert"), 7)


def test_streams_that_never_meet_have_no_share_in_one_another():
    trace = traced("marian")
    assert not rollout(trace, queries="source", keys="target").any()
    with pytest.raises(UnknownNameError, match="no stream 'text'"):
        rollout(trace, keys="text")


def test_weights_that_are_gone_are_asked_for():
    trace = a_text()
    gone = replace(trace.maps[0], source=SummaryOnly(trace.maps[0].shape))
    with pytest.raises(InputError, match="watch again with keep='windows'"):
        rollout(Trace(trace.streams, (gone,)))


def test_a_token_without_a_row_stays_itself():
    trace = a_text()
    late = trace.maps[0].part(range(4, 9), range(11))
    found = rollout(Trace(trace.streams, (late,)), keys="tokens")
    whole = by_the_paper([trace.maps[0].weights()])
    torch.testing.assert_close(found, whole[4:9])
    assert late.rows == Axis("tokens", (4, 5, 6, 7, 8))
