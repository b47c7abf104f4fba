"""Rows that are no numbers are known, and can be left out without touching the others."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import regard
from regard.measures import head_numbers
from regard.measures.finite_rows import empty_other_rows, finite_rows
from regard.measures.row_validity import invalid_rows, row_validity
from regard.types import Trace

HEADS, TOKENS = 3, 7


def weights():
    raw = torch.rand(HEADS, TOKENS, TOKENS).tril()
    return raw / raw.sum(dim=-1, keepdim=True)


def spoilt(wrong, whole=None):
    """A trace with one weight that is no number, in head 1 and row 4."""
    whole = weights() if whole is None else whole.clone()
    whole[1, 4, 2] = wrong
    return Trace.from_weights(whole, list("abcdefg"))


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_the_row_of_a_weight_that_is_no_number_is_found(wrong):
    trace = spoilt(wrong)
    expected = torch.ones(HEADS, TOKENS, dtype=torch.bool)
    expected[1, 4] = False
    assert torch.equal(finite_rows(trace["weights"]), expected)
    assert torch.equal(invalid_rows(trace, "weights"), ~expected)


def test_a_sound_trace_stays_the_same_object():
    trace = Trace.from_weights(weights(), list("abcdefg"))
    assert empty_other_rows(trace) is trace


def test_only_the_row_itself_is_emptied():
    whole = weights()
    emptied = empty_other_rows(spoilt(torch.nan, whole))["weights"].weights()
    assert not emptied[1, 4].any()
    whole[1, 4] = 0
    assert torch.equal(emptied, whole)


def test_measures_of_the_trace_as_it_is_stay_nan():
    numbers = head_numbers(spoilt(torch.nan), "weights")
    assert numbers.entropy.isnan().tolist() == [False, True, False]


def watched(keep):
    """A trace of a layer whose second head has queries that are NaN."""
    layer = nn.MultiheadAttention(HEADS * 4, HEADS, batch_first=True).eval()
    with torch.no_grad():
        layer.in_proj_weight[4:8] = torch.nan
        x = torch.randn(1, TOKENS, HEADS * 4)
        with regard.watch(layer, keep=keep) as seen:
            layer(x, x, x, need_weights=False)
    return seen[0]


def test_queries_that_are_nan_give_invalid_rows():
    trace = watched("windows")
    validity = row_validity(trace, trace.maps[0].site)
    assert validity.invalid_rows.tolist() == [0, 1, 0]


def as_recorded(trace):
    """The trace with NaN in the statistics and logsumexp of head 1, as a kernel records it."""
    kept = trace.maps[0]
    nan = torch.zeros(HEADS, 1, dtype=torch.bool)
    nan[1] = True
    statistics = {
        name: part.masked_fill(nan, torch.nan if part.is_floating_point() else -1)
        for name, part in vars(kept.statistics).items()
    }
    lse = kept.source.lse.masked_fill(nan, torch.nan)
    source = replace(kept.source, lse=lse)
    recorded = replace(kept, source=source, statistics=replace(kept.statistics, **statistics))
    return replace(trace, maps=(recorded,))


def test_weights_that_are_computed_again_are_emptied_by_their_logsumexp():
    trace = as_recorded(watched("windows"))
    emptied = empty_other_rows(trace).maps[0]
    weights = emptied.weights()
    assert not weights[1].any()
    assert torch.equal(weights[[0, 2]], trace.maps[0].weights()[[0, 2]])
    assert not emptied.row_statistics.entropy[1].any()


def test_a_sink_that_is_nan_makes_its_rows_invalid():
    trace = watched("windows")
    kept = trace.maps[0]
    on_sink = kept.statistics.on_sink.clone()
    on_sink[2, 3] = torch.nan
    kept = replace(kept, statistics=replace(kept.statistics, on_sink=on_sink))
    found = invalid_rows(replace(trace, maps=(kept,)), kept.site)
    assert bool(found[2, 3])
    assert int(found[2].sum()) == 1
