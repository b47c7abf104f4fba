from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from measures.attending import (
    HEADS,
    LENGTH,
    SOURCES,
    TEXT,
    a_decoder,
    a_text,
    a_translation,
    of_source,
    with_map,
    with_weights,
)
from regard.errors import InputError
from regard.measures.repeated_tokens import repeat_attention, rows_of_repeated_tokens
from regard.types import Axis, Tokens, map_statistics


def plainly(weights, names):
    """The masses of each row by loops, and the rows that count."""
    duplicate, induction = torch.zeros(2, *weights.shape[:2], dtype=torch.float64)
    rows = [row for row, name in enumerate(names) if name in names[:row]]
    for row in rows:
        for key in range(row):
            if names[key] == names[row]:
                duplicate[:, row] += weights[:, row, key]
                induction[:, row] += weights[:, row, key + 1]
    return duplicate[:, rows].mean(-1), induction[:, rows].mean(-1), len(rows)


@pytest.mark.parametrize("strip", [1, 70, 1 << 21])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", [a_text, a_decoder])
def test_repeats_are_counted_as_a_plain_loop_would(text, source, strip, monkeypatch):
    monkeypatch.setattr(map_statistics.row_strips, "__defaults__", (strip,))
    trace = text()
    duplicate, induction, rows = plainly(trace["h.0"].weights(), TEXT.ids)
    found = repeat_attention(of_source(trace, source), "h.0")
    assert found.rows == rows == 3
    torch.testing.assert_close(found.duplicate, duplicate)
    torch.testing.assert_close(found.induction, induction)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=13))
def test_any_text_is_counted_as_a_plain_loop_would(names):
    weights = torch.rand(2, len(names), len(names), dtype=torch.float64).softmax(-1)
    found = repeat_attention(with_weights(weights, list(map(str, names))), "h.0")
    duplicate, induction, rows = plainly(weights, names)
    assert found.rows == rows
    torch.testing.assert_close(found.duplicate, duplicate, equal_nan=True)
    torch.testing.assert_close(found.induction, induction, equal_nan=True)


def test_a_text_without_repeats_says_nothing_of_copying():
    found = repeat_attention(with_weights(torch.eye(5)), "h.0")
    assert found.rows == 0
    assert found.duplicate.isnan().all()
    assert found.induction.isnan().all()


def test_an_induction_head_of_random_tokens_twice_has_one():
    names = [*"abcdefg", *"abcdefg"]
    weights = torch.eye(14)
    weights[7:] = torch.eye(14)[1:8]
    assert repeat_attention(with_weights(weights, names), "h.0").induction.tolist() == [1]


def test_ids_tell_tokens_apart_that_look_the_same():
    tokens = Tokens(("a", "a", "b"), ids=(1, 2, 1))
    trace = with_weights(torch.eye(3), tokens)
    assert rows_of_repeated_tokens(trace, "h.0").tolist() == [False, False, True]


def test_plain_positions_repeat_nothing():
    assert repeat_attention(a_text(tokens=Tokens.positions(LENGTH)), "h.0").rows == 0


def test_streams_of_other_tokens_repeat_nothing():
    trace = a_text()
    other = replace(trace["h.0"], columns=Axis("others", tuple(range(LENGTH))))
    streams = {**trace.streams, "others": TEXT}
    found = repeat_attention(replace(trace, streams=streams, maps=(other,)), "h.0")
    assert found.duplicate.shape == (HEADS,)
    assert found.rows == 0


def test_rows_that_see_nothing_do_not_count():
    weights = torch.eye(4)
    weights[3] = 0
    found = repeat_attention(with_weights(weights, ["a", "b", "a", "b"]), "h.0")
    assert found.rows == 1


def test_a_part_counts_the_repeats_of_its_rows():
    trace = a_decoder()
    each = trace["h.0"].part(range(4, 10), range(LENGTH))
    assert repeat_attention(with_map(trace, each), "h.0").rows == 3


def test_a_cross_map_is_refused():
    with pytest.raises(InputError, match="from one text at another; expected an encoder or dec"):
        repeat_attention(a_translation(), "h.0")
