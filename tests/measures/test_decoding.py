import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from measures.attending import (
    COLUMNS,
    HEADS,
    ROWS,
    SOURCES,
    a_text,
    a_translation,
    of_source,
    with_map,
)
from regard.errors import InputError
from regard.measures import merge_pieces
from regard.measures.decoding import (
    argmax_sources,
    coverage,
    expected_positions,
    fertility,
    merge_words,
    monotonicity,
    revisits,
)
from regard.types import Tokens, Trace, map_statistics

PICKS = [None, 0, 2]


def picked(trace, head):
    weights = trace["h.0"].weights()
    return weights.mean(0) if head is None else weights[head]


def writing(peaks, columns=5):
    """A trace whose rows look at these columns alone."""
    weights = torch.eye(columns, dtype=torch.float64)[list(peaks)]
    target, source = ([f"w{n}" for n in range(count)] for count in weights.shape)
    return Trace.from_weights({"h.0": weights}, target, source)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("head", PICKS)
def test_coverage_is_what_each_source_token_received(head, source):
    trace = a_translation()
    found = coverage(of_source(trace, source), "h.0", head)
    torch.testing.assert_close(found, picked(trace, head).sum(0))


@pytest.mark.parametrize("strip", [1, 50, 1 << 21])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("head", PICKS)
def test_fertility_counts_the_largest_weights_of_rows(head, source, strip, monkeypatch):
    monkeypatch.setattr(map_statistics.row_strips, "__defaults__", (strip,))
    trace = a_translation()
    peaks = picked(trace, head).argmax(-1).tolist()
    found = fertility(of_source(trace, source), "h.0", head)
    assert found.tolist() == [peaks.count(key) for key in range(COLUMNS)]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("head", PICKS)
def test_monotonicity_is_the_tau_of_kendall(head, source):
    trace = a_translation()
    weights = picked(trace, head)
    place = (weights @ torch.arange(COLUMNS).double()).tolist()
    pairs = [(i, j) for i in range(ROWS) for j in range(i + 1, ROWS)]
    expected = sum(math.copysign(1, place[j] - place[i]) for i, j in pairs) / len(pairs)
    found = monotonicity(of_source(trace, source), "h.0", head)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("peaks", "expected"), [([0, 1, 2, 4], 1), ([4, 2, 1, 0], -1), ([3, 3, 3], 0)]
)
def test_reading_in_order_is_one_and_backwards_minus_one(peaks, expected):
    assert monotonicity(writing(peaks), "h.0") == expected


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=13))
def test_writing_backwards_turns_monotonicity_around(peaks):
    forth, back = (monotonicity(writing(each), "h.0") for each in (peaks, peaks[::-1]))
    assert forth == -back
    assert -1 <= forth <= 1


def test_one_step_has_no_order():
    assert math.isnan(monotonicity(writing([2]), "h.0"))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=13))
def test_each_row_is_written_from_one_token_and_comes_back_or_not(peaks):
    trace = writing(peaks)
    assert fertility(trace, "h.0").sum() == len(peaks)
    runs = [key for n, key in enumerate(peaks) if n == 0 or peaks[n - 1] != key]
    expected = [max(0, runs.count(key) - 1) for key in range(5)]
    assert revisits(trace, "h.0").tolist() == expected


def test_rows_that_see_nothing_are_written_from_nowhere():
    trace = writing([1, 2, 3])
    trace["h.0"].source.weights[0, 1] = 0
    assert argmax_sources(trace, "h.0").tolist() == [1, -1, 3]
    assert fertility(trace, "h.0").tolist() == [0, 1, 0, 1, 0]
    assert expected_positions(trace, "h.0").isnan().tolist() == [False, True, False]
    assert monotonicity(trace, "h.0") == 1
    assert revisits(trace, "h.0").tolist() == [0] * 5


def test_words_are_merged_as_alignments_are():
    trace = a_translation()
    found = merge_words(trace, "h.0")
    rows, columns = (*range(6), None), (*(n // 3 for n in range(12)), None)
    expected = torch.stack([merge_pieces(head, rows, columns) for head in trace["h.0"].weights()])
    torch.testing.assert_close(found["h.0"].weights(), expected)
    assert found["h.0"].shape == (HEADS, 6, 4)


def test_words_are_called_by_their_pieces_without_marks():
    found = merge_words(a_translation(), "h.0")
    assert found.streams["target"].texts == tuple("我爱中国的猫")
    assert found.streams["source"].texts[0] == "p0w1w2"


def test_the_coverage_of_words_leaves_special_tokens_out():
    trace = a_translation()
    kept = picked(trace, None)[:-1, :-1]
    found = coverage(merge_words(trace, "h.0"), "h.0")
    torch.testing.assert_close(found, kept.sum(0).view(4, 3).sum(1))


def test_without_words_each_token_is_one():
    trace = Trace.from_weights({"h.0": torch.eye(3)}, list("abc"), list("xyz"))
    assert merge_words(trace, "h.0").streams["keys"] == Tokens(tuple("xyz"))


def test_rows_are_called_by_what_they_read_where_nothing_else_is_known():
    trace = a_translation()
    found = merge_words(with_map(trace, replace(trace["h.0"], produced=None)), "h.0")
    assert found.streams["target"].texts == tuple("我爱中国的猫")
    torch.testing.assert_close(
        found["h.0"].weights()[0, 0, 0], trace["h.0"].weights()[0, 1, :3].sum()
    )


def test_a_part_has_the_words_of_its_pieces():
    trace = a_translation()
    part = with_map(trace, trace["h.0"].part(range(2, 5), range(6, 9)))
    found = merge_words(part, "h.0")
    assert found["h.0"].shape == (HEADS, 3, 1)
    assert found.streams["source"].texts == ("p6w7w8",)


def test_chosen_heads_stay_known_by_their_numbers():
    trace = a_translation()
    chosen = with_map(trace, trace["h.0"].select([2, 0]))
    assert merge_words(chosen, "h.0")["h.0"].head_indices == (2, 0)


@pytest.mark.parametrize("measure", [coverage, fertility, revisits, monotonicity, merge_words])
def test_a_text_that_looks_at_itself_is_refused(measure):
    with pytest.raises(InputError, match=r"at a source, got 'h\.0' of kind 'encoder'"):
        measure(a_text(), "h.0")


@pytest.mark.parametrize("measure", [coverage, fertility, monotonicity])
def test_a_head_that_is_not_there_is_named_with_those_that_are(measure):
    with pytest.raises(InputError, match=r"no head 3 at 'h\.0'; it has heads 0 to 2"):
        measure(a_translation(), "h.0", 3)


def test_the_refusal_names_the_sites_that_do():
    text, translation = a_text(), a_translation()
    cross = replace(translation["h.0"], site="cross.0")
    trace = Trace({**text.streams, **translation.streams}, (text["h.0"], cross))
    with pytest.raises(InputError, match=r"this trace has cross\.0"):
        coverage(trace, "h.0")
