import pytest
import torch

from regard.kernels.observe import observe
from regard.measures.row_validity import mass_on, row_validity
from regard.types import AttentionMap, Axis, DenseWeights, RecomputableWeights, Tokens, Trace
from traces import a_trace

WORDS = list("abcde")


def even(rows=5, columns=5, heads=1):
    return torch.full((heads, rows, columns), 1 / columns)


def test_rows_that_are_shares_are_sound():
    found = row_validity(Trace.from_weights(even(heads=3), WORDS), "weights")
    for part in (
        found.empty_rows,
        found.invalid_rows,
        found.excess,
        found.missing,
        found.on_padding,
    ):
        torch.testing.assert_close(part, torch.zeros(3, dtype=torch.double), atol=1e-6, rtol=0)


def test_rows_without_weight_are_blind_and_not_missing():
    weights = even()
    weights[0, :3] = 0
    found = row_validity(Trace.from_weights(weights, WORDS), "weights")
    assert found.empty_rows.item() == pytest.approx(0.6)
    assert found.missing.item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -0.5])
def test_a_row_that_is_no_weights_is_broken(wrong):
    weights = even()
    weights[0, 2, 1] = wrong
    found = row_validity(Trace.from_weights(weights, WORDS), "weights")
    assert found.invalid_rows.item() == pytest.approx(0.2)


def test_sums_are_measured_on_both_sides_of_one():
    weights = torch.cat([even() * 1.5, even() * 0.75])
    found = row_validity(Trace.from_weights(weights, WORDS), "weights")
    assert found.excess.tolist() == pytest.approx([0.5, -0.25])
    assert found.missing.tolist() == pytest.approx([0, 0.25])


def test_what_weights_of_ones_own_lack_is_not_taken_for_padding():
    found = row_validity(Trace.from_weights(even() * 0.75, WORDS), "weights")
    assert found.on_padding.item() == 0


def test_what_a_softmax_gave_to_keys_that_were_dropped_is_on_padding():
    query, key = torch.randn(1, 2, 5, 7), torch.randn(1, 2, 11, 7)
    seen = observe(query, key, key, scale=0.7)
    source = RecomputableWeights(query[0], key[0, :, :5], seen.lse[0], seen.scoring)
    axis = Axis("tokens", tuple(range(5)))
    each = AttentionMap("h", "encoder", axis, axis, source)
    found = row_validity(Trace({"tokens": Tokens(tuple(WORDS))}, (each,)), "h")
    lost = 1 - each.weights().sum(dim=2).mean(dim=1)
    torch.testing.assert_close(found.on_padding, lost.double(), atol=1e-6, rtol=0)


def test_nothing_is_said_of_weights_that_are_gone():
    found = row_validity(a_trace(), "h.2")
    assert found.missing.isnan().all()
    assert not found.invalid_rows.any()


def test_columns_that_were_cut_off_are_not_missing():
    trace = Trace.from_weights(even(), WORDS).part("tokens", 1, 4)
    assert row_validity(trace, "weights").missing.isnan().all()


def test_queries_and_keys_that_were_rounded_for_keeping_are_not_judged():
    query, key = torch.randn(1, 2, 5, 7), torch.randn(1, 2, 5, 7)
    seen = observe(query, key, key)
    source = RecomputableWeights(query[0] + 1, key[0], seen.lse[0], seen.scoring, exact=False)
    axis = Axis("tokens", tuple(range(5)))
    trace = Trace(
        {"tokens": Tokens(tuple(WORDS))}, (AttentionMap("h", "encoder", axis, axis, source),)
    )
    assert row_validity(trace, "h").missing.isnan().all()


def test_mass_on_columns_leaves_out_the_rows_of_these_tokens():
    weights = torch.eye(5)[None]
    weights[0, 0] = torch.tensor([0.5, 0, 0, 0, 0.5])
    trace = Trace.from_weights(weights, WORDS)
    assert mass_on(trace, "weights", [4]).item() == pytest.approx(0.5 / 4)


def test_mass_on_columns_of_another_text_counts_every_row():
    streams = {"rows": Tokens.positions(3), "columns": Tokens.positions(2)}
    axes = (Axis("rows", (0, 1, 2)), Axis("columns", (0, 1)))
    each = AttentionMap("h", "cross", *axes, DenseWeights(torch.full((1, 3, 2), 0.5)))
    assert mass_on(Trace(streams, (each,)), "h", [1]).item() == pytest.approx(0.5)
