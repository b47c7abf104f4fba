import sys
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from measures.attending import (
    HEADS,
    LENGTH,
    SOURCES,
    TEXT,
    a_decoder,
    a_text,
    a_translation,
    attend,
    of_source,
    with_map,
    with_weights,
)
from regard import masks
from regard.errors import InputError
from regard.measures import heads
from regard.measures.heads import HeadNumbers, distance_profile, head_numbers
from regard.types import Axis, DenseWeights, RecomputableWeights, Tokens, Trace

NAMES = [each.name for each in fields(HeadNumbers) if each.name != "rows"]
TEXTS = {
    "encoder": a_text,
    "decoder": a_decoder,
    "window": lambda: a_text(mask=masks.window(2, 1)),
    "sink": lambda: a_decoder(sink=True),
}


def plainly(trace):
    """The numbers of each head by their definitions, from all weights at once."""
    each = trace["h.0"]
    weights = each.weights().double()
    queries, keys = weights.shape[1:]
    sink = (
        1 - weights.sum(-1) if each.row_statistics.on_sink.any() else torch.zeros(weights.shape[:2])
    )
    outcomes = torch.cat([weights, sink[..., None].double()], dim=-1)
    entropy = -torch.special.xlogy(outcomes, outcomes).sum(-1)
    may = (weights > 0).sum(-1) + (sink > 0)
    ahead = torch.arange(keys) - torch.arange(queries)[:, None]
    kinds = torch.tensor([1, 0, 0, 2, 0, 0, 2, 0, 0, 0, 1])
    found = {
        "entropy": entropy,
        "effective_keys": entropy.exp(),
        "confidence": weights.amax(-1),
        "distance": (weights * ahead.abs()).sum(-1),
        "locality": (weights * (ahead.abs() <= 1)).sum(-1),
        "on_first": weights[..., 0],
        "on_self": (weights * (ahead == 0)).sum(-1),
        "on_previous": (weights * (ahead == -1)).sum(-1),
        "on_next": (weights * (ahead == 1)).sum(-1),
        "on_future": (weights * (ahead > 0)).sum(-1),
        "on_padding": torch.zeros(weights.shape[:2]).double(),
        "on_sink": sink.double(),
        "on_special": weights[..., kinds == 1].sum(-1),
        "on_punctuation": weights[..., kinds == 2].sum(-1),
    }
    found = {name: rows.mean(-1) for name, rows in found.items()}
    several = torch.where(may > 1, entropy / may.log(), torch.nan)
    return found | {"evenness": several.nanmean(-1), "deviation": torch.zeros(HEADS).double()}


# weights alone do not tell of a sink, nor of a window
CASES = [(text, source) for text in ("encoder", "decoder") for source in SOURCES]
CASES += [(text, source) for text in ("window", "sink") for source in ("recomputable", "counted")]


@pytest.mark.parametrize(("text", "source"), CASES)
def test_the_numbers_of_heads_are_those_of_their_definitions(text, source):
    trace = TEXTS[text]()
    expected = plainly(trace)
    found = head_numbers(of_source(trace, source), "h.0")
    assert found.rows == LENGTH
    for name in NAMES:
        torch.testing.assert_close(getattr(found, name), expected[name], atol=1e-9, rtol=1e-9)


def test_numbers_of_a_model_in_single_precision_are_close():
    trace = a_decoder(dtype=torch.float32)
    found, expected = head_numbers(trace, "h.0"), plainly(trace)
    for name in NAMES:
        torch.testing.assert_close(getattr(found, name), expected[name], atol=2e-6, rtol=1e-5)


def test_a_summary_knows_all_but_what_needs_columns():
    trace = a_decoder()
    found, whole = head_numbers(of_source(trace, "summary"), "h.0"), head_numbers(trace, "h.0")
    unknown = {"on_special", "on_punctuation", "deviation"}
    assert {name for name in NAMES if getattr(found, name).isnan().any()} == unknown
    for name in {*NAMES} - unknown:
        torch.testing.assert_close(getattr(found, name), getattr(whole, name))


def test_rows_that_see_nothing_do_not_count():
    trace = a_text()
    weights = trace["h.0"].weights()
    padded = torch.nn.functional.pad(weights, (0, 0, 0, 2))
    rows = Axis("tokens", (*range(LENGTH), 0, 0))
    blind = with_map(trace, replace(of_source(trace, "dense")["h.0"], source=DenseWeights(weights)))
    more = replace(blind["h.0"], source=DenseWeights(padded), rows=rows)
    found, expected = (head_numbers(each, "h.0") for each in (with_map(trace, more), blind))
    assert found.rows == LENGTH
    for name in NAMES:
        torch.testing.assert_close(getattr(found, name), getattr(expected, name))


def test_a_map_that_sees_nothing_has_no_numbers():
    found = head_numbers(with_weights(torch.zeros(2, 5, 5)), "h.0")
    assert found.rows == 0
    assert all(getattr(found, name).isnan().all() for name in NAMES)


def test_a_map_without_rows_has_no_numbers():
    trace = with_weights(torch.rand(2, 5, 5))
    each = replace(trace["h.0"], rows=Axis("tokens", ()), source=DenseWeights(torch.rand(2, 0, 5)))
    assert head_numbers(with_map(trace, each), "h.0").deviation.isnan().all()


def test_each_head_counts_its_own_rows():
    weights = torch.eye(5).repeat(2, 1, 1)
    weights[1, 2:] = 0
    found = head_numbers(with_weights(weights), "h.0")
    assert found.rows == 5
    assert found.on_self.tolist() == [1, 1]


def test_a_row_on_the_sink_alone_counts():
    source, statistics, _ = attend(5, 7, mask=masks.lengths([0]), sink=True)
    trace = a_translation()
    rows, columns = Axis("target", tuple(range(5))), Axis("source", tuple(range(7)))
    each = replace(
        trace["h.0"],
        rows=rows,
        columns=columns,
        source=source,
        statistics=statistics,
        produced=None,
    )
    found = head_numbers(with_map(trace, replace(each, atlas=None)), "h.0")
    assert found.on_sink.tolist() == [1, 1, 1]
    assert found.evenness.isnan().all()


def test_a_cross_map_has_no_distances_and_no_neighbours():
    found = head_numbers(a_translation(), "h.0")
    beyond = {"distance", "locality", "on_self", "on_previous", "on_next", "on_future"}
    assert {name for name in NAMES if getattr(found, name).isnan().all()} == beyond


def test_what_tokens_are_is_not_known_of_plain_positions():
    found = head_numbers(a_text(tokens=Tokens.positions(LENGTH)), "h.0")
    assert found.on_special.isnan().all()
    assert found.on_punctuation.isnan().all()


def test_without_flags_special_tokens_are_not_known_but_punctuation_is():
    found = head_numbers(a_text(tokens=replace(TEXT, special=None)), "h.0")
    assert found.on_special.isnan().all()
    assert found.on_punctuation.isfinite().all()


def test_rows_that_do_not_sum_to_one_deviate_by_what_is_missing():
    weights = torch.eye(5).repeat(3, 1, 1)
    weights[1, 3, 3], weights[2, 2, 2] = 0.75, 1.5
    found = head_numbers(with_weights(weights), "h.0").deviation
    assert found.tolist() == [0, 0.25, 0.5]


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_rows_that_are_not_finite_have_no_deviation(wrong):
    weights = torch.eye(5).repeat(2, 1, 1)
    weights[1, 3, 3] = wrong
    found = head_numbers(with_weights(weights), "h.0").deviation
    assert found[0] == 0
    assert found[1].isnan()


def test_padding_that_was_dropped_is_missed_by_no_row():
    trace = of_source(a_text(), "dense")
    each = trace["h.0"]
    weights = each.weights() * 0.75
    padded = torch.full(weights.shape[:2], 0.25, dtype=torch.float64)
    statistics = replace(each.row_statistics, on_padding=padded)
    seen = replace(each, source=DenseWeights(weights), statistics=statistics)
    found = head_numbers(with_map(trace, seen), "h.0")
    torch.testing.assert_close(found.deviation, torch.zeros(HEADS).double(), atol=1e-12, rtol=0)
    torch.testing.assert_close(found.on_padding, torch.full((HEADS,), 0.25).double())


def test_rows_of_which_columns_were_cut_off_are_not_blamed_for_it():
    part = a_text().part("tokens", 0, 7)
    found = head_numbers(part, "h.0")
    assert found.deviation.isnan().all()
    assert found.evenness.isnan().all()
    assert a_text().part("tokens", 3, 11)["h.0"].shape == (HEADS, 8, 8)
    assert head_numbers(a_text().part("tokens", 3, 11), "h.0").deviation.isnan().all()


def test_the_beginning_of_a_text_that_never_looks_ahead_is_whole():
    found = head_numbers(a_decoder().part("tokens", 0, 7), "h.0")
    assert (found.deviation < 1e-9).all()
    assert found.evenness.isfinite().all()


def test_rounded_queries_are_not_blamed_for_what_rounding_did():
    each = a_text()["h.0"]
    source = each.source
    rounded = RecomputableWeights(source.query, source.key, source.lse, source.scoring, exact=False)
    trace = with_map(a_text(), replace(each, source=rounded))
    assert head_numbers(trace, "h.0").deviation.isnan().all()


ROWS_OF_WEIGHTS = arrays("float64", (2, 5, 5), elements=st.floats(-9, 9))


@settings(deadline=None, max_examples=40)
@given(ROWS_OF_WEIGHTS)
def test_numbers_keep_within_their_bounds(scores):
    found = head_numbers(with_weights(torch.from_numpy(scores).softmax(-1)), "h.0")
    assert ((found.evenness >= 0) & (found.evenness <= 1)).all()
    assert ((found.effective_keys >= 1 - 1e-9) & (found.effective_keys <= 5 + 1e-9)).all()
    assert (found.confidence >= 1 / found.effective_keys - 1e-9).all()
    assert (found.locality <= 1 + 1e-9).all()
    assert (found.distance <= 4).all()


@settings(deadline=None, max_examples=40)
@given(ROWS_OF_WEIGHTS, st.permutations(range(2)))
def test_heads_in_another_order_have_their_numbers_in_that_order(scores, order):
    weights = torch.from_numpy(scores).softmax(-1)
    found, turned = (head_numbers(with_weights(w), "h.0") for w in (weights, weights[list(order)]))
    assert torch.equal(found.entropy[list(order)], turned.entropy)


@pytest.mark.parametrize("source", ["recomputable", "dense"])
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tall", [1, 3, 128])
def test_a_profile_has_the_mean_mass_at_each_offset(text, source, tall, monkeypatch):
    monkeypatch.setattr(heads, "_BAND_ROWS", tall)
    trace = TEXTS[text]()
    weights = trace["h.0"].weights()
    found = distance_profile(of_source(trace, source), "h.0", 3)
    for column, ahead in enumerate(range(-3, 4)):
        expected = weights.diagonal(ahead, dim1=1, dim2=2).mean(-1)
        torch.testing.assert_close(found[:, column], expected)


def test_a_profile_of_everything_holds_all_mass():
    trace = a_decoder()
    found = distance_profile(trace, "h.0", LENGTH - 1)
    pairs = torch.tensor([LENGTH - abs(n) for n in range(1 - LENGTH, LENGTH)])
    torch.testing.assert_close((found * pairs).sum(-1), torch.full((HEADS,), LENGTH).double())


def test_offsets_that_no_row_has_are_not_known():
    found = distance_profile(with_weights(torch.eye(3)), "h.0", 4)[0]
    assert found.isnan().tolist() == [True, True, *[False] * 5, True, True]


def test_a_part_far_from_the_diagonal_has_no_profile():
    trace = with_weights(torch.rand(23, 23))
    part = with_map(trace, trace["h.0"].part(range(17, 23), range(3)))
    assert distance_profile(part, "h.0", 2).isnan().all()


def test_a_profile_of_a_cross_map_is_refused():
    with pytest.raises(InputError, match="looks from one text at another, where offsets mean"):
        distance_profile(a_translation(), "h.0", 2)


def test_a_profile_reaches_somewhere():
    with pytest.raises(InputError, match="a reach of at least 0 tokens, got -1"):
        distance_profile(a_text(), "h.0", -1)


def test_a_trace_of_many_sites_is_asked_for_one():
    trace = Trace.from_weights(torch.eye(5).expand(2, 3, 5, 5), list("abcde"))
    assert head_numbers(trace, "layer 1").on_self.tolist() == [1, 1, 1]


def test_the_repr_is_short_and_the_table_has_a_row_for_each_head(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    found = head_numbers(a_text(), "h.0")
    assert repr(found).startswith(f"<HeadNumbers of {HEADS} heads over {LENGTH} rows: ")
    table = found.to_pandas()
    assert table["head"] == list(range(HEADS))
    assert {*table} == {"head", *NAMES}
    assert table["entropy"] == found.entropy.tolist()


def test_a_table_without_pandas_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pip install pandas"):
        head_numbers(a_text(), "h.0").to_pandas()
