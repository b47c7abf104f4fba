"""What a tally says of a batch is what the measures say of the trace of each example."""

import gc
import weakref

import pytest
import torch
from torch import nn

import regard
from regard.errors import InputError
from regard.measures.heads import head_numbers
from regard.tracing.statistics.collect import BatchStatistics, SiteStatistics, collect_statistics
from regard.tracing.statistics.moments import Moments
from regard.types import Trace
from tracing.hands import FORMS, HEADS, LENGTH, Layer, an_input

LENGTHS = (LENGTH, 2, 5)


def hidden(lengths=LENGTHS):
    return torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]


def an_encoder(layers=2):
    layer = nn.TransformerEncoderLayer(14, 7, 11, batch_first=True)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).eval()


def both(model, *args, **kwargs):
    """The tallies of a call, and its traces."""
    with torch.no_grad(), collect_statistics(model) as seen:
        model(*args, **kwargs)
    with torch.no_grad(), regard.watch(model) as traces:
        model(*args, **kwargs)
    return seen, list(traces)


def agree(seen, traces: list[Trace]) -> None:
    for site, each in seen.sites.items():
        numbers = [head_numbers(trace, site) for trace in traces]
        assert each.rows == sum(found.rows for found in numbers)
        for name, mean in zip(seen.measures, each.moments.means, strict=True):
            expected = torch.stack([getattr(found, name) for found in numbers]).nanmean(dim=0)
            if name != "deviation":  # needs the kinds of tokens, as the sums of rows do
                torch.testing.assert_close(mean, expected, equal_nan=True, atol=2e-6, rtol=1e-5)


def test_the_means_are_those_of_the_measures_without_padding():
    seen, traces = both(an_encoder(), torch.randn(3, LENGTH, 14), src_key_padding_mask=hidden())
    assert list(seen.sites) == [each.site for each in traces[0]]
    agree(seen, traces)


@pytest.mark.parametrize("form", FORMS)
def test_calls_are_summed_at_once_or_at_the_end_to_the_same(form):
    layer, x, found = Layer(form), an_input(), []
    kinds = torch.tensor([[0] * (LENGTH - 2) + [1, 1], [0] * LENGTH])
    for early in (True, False):
        with torch.no_grad(), collect_statistics(layer, ("",)) as seen:
            if early:
                seen.set_kinds({"tokens": kinds})
            layer(x)
            assert bool(seen.sites) == early
            seen.set_kinds({"tokens": kinds})
        found.append(next(iter(seen.sites.values())).moments.means)
    torch.testing.assert_close(*found, equal_nan=True)


@pytest.mark.parametrize("form", FORMS)
def test_attention_of_every_form_is_tallied(form):
    seen, traces = both(Layer(form), an_input())
    assert [each.moments.mean.shape[1] for each in seen.sites.values()] == [HEADS]
    agree(seen, traces)


def test_a_causal_mask_bounds_what_is_even():
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    seen, traces = both(an_encoder(), torch.randn(3, LENGTH, 14), mask=mask, is_causal=True)
    assert {each.kind for each in seen.sites.values()} == {"decoder"}
    agree(seen, traces)


def test_a_layer_that_runs_twice_has_two_tallies():
    attention = nn.MultiheadAttention(14, 7, batch_first=True).eval()

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            once = self.attention(x, x, x, need_weights=False)[0]
            return self.attention(once, once, once, need_weights=False)[0]

    seen, traces = both(Twice(), torch.randn(2, 5, 14))
    assert list(seen.sites) == ["attention", "attention#1"]
    agree(seen, traces)


def test_the_mass_on_each_kind_is_told_apart():
    attention, x = nn.MultiheadAttention(14, 7, batch_first=True).eval(), torch.randn(2, 5, 14)
    kinds = torch.tensor([[1, 0, 0, 1, 2], [0, 0, 1, 2, 2]])  # the last is padding
    with torch.no_grad(), collect_statistics(attention, ("", "on_marked")) as seen:
        seen.set_kinds({"tokens": kinds})
        _, weights = attention(x, x, x, average_attn_weights=False)
    found = dict(zip(seen.measures, seen.sites["MultiheadAttention"].moments.mean, strict=True))
    rows = [weights[0, :, :4], weights[1, :, :3]]
    marked = [rows[0][..., [0, 3]], rows[1][..., [2]]]
    padded = [rows[0][..., 4:], rows[1][..., 3:]]
    for name, parts in (("on_marked", marked), ("on_padding", padded)):
        expected = torch.stack([each.sum(-1).mean(-1) for each in parts]).mean(0)
        torch.testing.assert_close(found[name], expected.double(), atol=1e-6, rtol=0)
    assert found["deviation"].max() < 1e-6


def test_a_row_that_is_not_finite_does_not_spoil_the_others():
    attention, x = nn.MultiheadAttention(14, 7, batch_first=True).eval(), torch.randn(3, 5, 14)
    x[1, 2] = torch.nan
    with torch.no_grad(), collect_statistics(attention) as seen:
        attention(x, x, x, need_weights=False)
    found = seen.sites["MultiheadAttention"]
    assert (found.examples, found.moments.count[0].tolist()) == (3, [2.0] * 7)
    assert found.moments.means[0].isfinite().all()


def test_queries_and_keys_are_gone_when_the_block_has_ended(monkeypatch):
    attention, x, held = nn.MultiheadAttention(14, 7).eval(), torch.randn(5, 2, 14), []
    fill = BatchStatistics.add_runs

    def noting(self, runs, gaps):
        held.extend(map(weakref.ref, (runs[0][0].query, runs[0][0].key)))
        fill(self, runs, gaps)

    monkeypatch.setattr(BatchStatistics, "add_runs", noting)
    gc.disable()
    try:
        with torch.no_grad(), collect_statistics(attention):
            attention(x, x, x, need_weights=False)
        assert [each() for each in held] == [None, None]
    finally:
        gc.enable()


def test_where_nothing_attends_there_is_no_tally():
    with collect_statistics(nn.Linear(3, 5)) as seen:
        pass
    assert (seen.sites, seen.gaps) == ({}, ())


def test_tallies_of_other_heads_do_not_merge():
    one, other = (SiteStatistics("encoder", 1, 1, Moments.of(torch.randn(1, 3, n))) for n in (5, 7))
    with pytest.raises(InputError, match="encoder attention of 5 heads and 3 measures, and enc"):
        one + other
