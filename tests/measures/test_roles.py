import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from measures.attending import (
    COLUMNS,
    HEADS,
    LENGTH,
    ROWS,
    SOURCES,
    a_decoder,
    a_text,
    a_translation,
    of_source,
    with_map,
    with_weights,
)
from regard import masks
from regard.measures.repeated_tokens import repeat_attention
from regard.measures.roles import (
    NAMES,
    LeadingRoles,
    Role,
    aligner,
    best_offsets,
    leading_roles,
    roles,
)
from regard.types import Axis, DenseWeights, Tokens, Trace

CROSSING = {"first", "delimiter", "broad", "aligner"}


def known(scores):
    return {name for name, score in scores.items() if score.isfinite().all()}


def plainly(weights, may):
    """The scores of a text's roles from all weights at once."""
    length = weights.shape[1]
    ahead = torch.arange(length) - torch.arange(length)[:, None]
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    offsets = [n for n in range(-5, 6) if abs(n) > 1]
    return {
        "previous": weights.diagonal(-1, dim1=1, dim2=2).mean(-1),
        "next": weights.diagonal(1, dim1=1, dim2=2).mean(-1),
        "self": weights.diagonal(0, dim1=1, dim2=2).mean(-1),
        "local": (weights * (ahead.abs() <= 1)).sum(-1).mean(-1),
        "first": torch.where(may > 1, weights[..., 0], torch.nan).nanmean(-1),
        "delimiter": weights[..., [3, 6, 10]].sum(-1).mean(-1),
        "broad": (entropy.exp() - 1).sum(-1) / (may - 1).sum(),
        "offset": torch.stack([weights.diagonal(n, dim1=1, dim2=2).mean(-1) for n in offsets]).amax(
            0
        ),
    }


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", [a_text, a_decoder])
def test_the_roles_of_a_text_are_those_of_their_definitions(text, source):
    trace = text()
    may = torch.arange(1, LENGTH + 1) if text is a_decoder else torch.full((LENGTH,), LENGTH)
    found = roles(of_source(trace, source), "h.0")
    for name, expected in plainly(trace["h.0"].weights(), may).items():
        torch.testing.assert_close(found[name], expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("source", SOURCES)
def test_the_roles_of_repeats_are_those_of_the_rows_that_have_some(source):
    trace = of_source(a_decoder(), source)
    found, copies = roles(trace, "h.0"), repeat_attention(trace, "h.0")
    assert torch.equal(found["duplicate"], copies.duplicate)
    assert torch.equal(found["induction"], copies.induction)


def test_every_role_but_the_aligner_is_known_of_a_text():
    found = roles(a_text(), "h.0")
    assert tuple(found) == NAMES
    assert known(found) == {*NAMES} - {"aligner"}


def test_a_cross_map_has_roles_of_its_own():
    assert known(roles(a_translation(), "h.0")) == CROSSING


def test_a_summary_knows_what_its_statistics_tell():
    gone = {"delimiter", "offset", "duplicate", "induction", "aligner"}
    assert known(roles(of_source(a_text(), "summary"), "h.0")) == {*NAMES} - gone
    found = known(roles(of_source(a_translation(), "summary"), "h.0"))
    assert found == CROSSING - {"delimiter"}


def test_rows_of_which_columns_were_cut_off_are_not_called_broad():
    assert "broad" not in known(roles(a_text().part("tokens", 2, 9), "h.0"))


def test_without_names_or_delimiters_none_is_known():
    plain = Tokens(tuple("abcdefghijk"))
    for tokens in (plain, Tokens.positions(LENGTH)):
        assert "delimiter" not in known(roles(a_text(tokens=tokens), "h.0"))


def test_the_first_token_is_no_delimiter():
    weights = torch.zeros(5, 5)
    weights[:, 0] = 1
    tokens = Tokens(("<s>", "a", "b", "c", "."), special=(True, *[False] * 4))
    found = roles(with_weights(weights, tokens), "h.0")
    assert (found["first"].item(), found["delimiter"].item()) == (1, 0)


def test_a_sink_is_one_more_key_of_a_broad_row():
    trace = a_text(sink=True)
    sink = trace["h.0"].row_statistics.on_sink
    whole = torch.cat([trace["h.0"].weights(), sink[..., None]], dim=-1)
    entropy = -torch.special.xlogy(whole, whole).sum(-1)
    expected = ((entropy.exp() - 1) / LENGTH).mean(-1)
    torch.testing.assert_close(roles(trace, "h.0")["broad"], expected)


@pytest.mark.parametrize("ahead", [-4, -2, 2, 3])
def test_the_best_offset_is_where_a_head_looks(ahead):
    weights = torch.eye(LENGTH).roll(ahead, 1)
    score, offset = best_offsets(with_weights(weights), "h.0")
    assert (score.item(), offset.item()) == (1, ahead)


def test_an_offset_that_few_rows_have_does_not_count():
    weights = torch.eye(LENGTH)
    weights[8:] = torch.eye(LENGTH).roll(-8, 1)[8:]
    assert best_offsets(with_weights(weights), "h.0")[0].item() == 0


def test_a_text_too_short_for_offsets_has_none():
    score, offset = best_offsets(with_weights(torch.eye(2)), "h.0")
    assert score.isnan().all()
    assert offset.tolist() == [0]


def translated(weights, **tokens):
    weights = torch.as_tensor(weights, dtype=torch.float64)
    rows, columns = weights.shape[-2:]
    source = Tokens(tuple(f"s{n}" for n in range(columns)), **tokens)
    return Trace.from_weights({"h.0": weights}, [f"t{n}" for n in range(rows)], source)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 2, 0, 1, 3]])
def test_a_head_that_takes_each_word_in_turn_is_an_aligner_in_any_order(order):
    assert aligner(translated(torch.eye(5)[order]), "h.0").tolist() == [1]


def test_a_head_that_looks_at_one_word_or_at_all_is_no_aligner():
    one = torch.eye(5)[[0] * 5]
    even = torch.full((5, 5), 0.2)
    assert aligner(translated(torch.stack([one, even])), "h.0").tolist() == pytest.approx(
        [0.2, 0.04]
    )


def test_the_end_of_the_source_is_no_word_to_align_to():
    weights = torch.eye(5)[[0, 1, 4, 4, 4]]
    special = (False, False, False, False, True)
    found = aligner(translated(weights, special=special), "h.0")
    assert found.item() == pytest.approx(2 / 5 * 2 / 4)


def test_a_row_that_leads_to_the_end_of_the_text_need_not_align():
    trace = a_translation()
    weights = torch.eye(COLUMNS)[[*range(ROWS - 1), COLUMNS - 1]].double()
    each = replace(trace["h.0"], source=DenseWeights(weights[None]), statistics=None, atlas=None)
    assert aligner(with_map(trace, each), "h.0").tolist() == [1]


@settings(deadline=None, max_examples=40)
@given(arrays("float64", (2, 5, 7), elements=st.floats(-9, 9)))
def test_an_aligner_score_keeps_within_its_bounds(scores):
    found = aligner(translated(torch.from_numpy(scores).softmax(-1)), "h.0")
    assert ((found >= 0) & (found <= 1)).all()


def test_an_aligner_does_not_care_for_the_order_of_the_source():
    weights = torch.rand(2, 5, 7, dtype=torch.float64).softmax(-1)
    turned = weights[..., [3, 0, 6, 1, 5, 2, 4]]
    found = [aligner(translated(each), "h.0") for each in (weights, turned)]
    torch.testing.assert_close(*found)


SHIFTED = {
    "previous": torch.eye(LENGTH).roll(-1, 1).tril(-1)
    + torch.eye(LENGTH)[:1].T @ torch.eye(LENGTH)[:1],
    "next": torch.eye(LENGTH).roll(1, 1),
    "self": torch.eye(LENGTH),
    "first": torch.eye(LENGTH)[[0] * LENGTH],
    "offset": torch.eye(LENGTH).roll(-3, 1),
    "broad": torch.full((LENGTH, LENGTH), 1 / LENGTH),
    "delimiter": torch.eye(LENGTH)[[6] * LENGTH],
}


@pytest.mark.parametrize("name", SHIFTED)
def test_a_head_that_plays_one_role_is_called_by_it(name):
    tokens = Tokens(("<s>", *"abcde", ".", *"fghi"))
    (found,) = leading_roles(with_weights(SHIFTED[name], tokens), "h.0")
    assert found.name == name
    assert found.offset == (-3 if name == "offset" else None)


def test_a_head_that_looks_all_around_itself_is_local():
    weights = sum(torch.eye(LENGTH).roll(n, 1) for n in (-1, 0, 1)) / 3
    (found,) = leading_roles(with_weights(weights), "h.0")
    assert found.name == "local"


def inducing(names):
    """A head that looks at what followed its token at first, else at the first token."""
    places = [names.index(name) + 1 if name in names[:n] else 0 for n, name in enumerate(names)]
    return with_weights(torch.eye(len(names))[places], names)


def test_a_repeated_token_makes_no_role_and_a_text_full_of_repeats_does():
    once, often = [*"abcdefgahijkl"], [*"abcdecdabdebcdeaecdba"]
    assert leading_roles(inducing(often), "h.0") == (Role("induction", 1.0),)
    assert leading_roles(inducing(once), "h.0") == (Role("first", 11 / 12),)


def test_a_head_of_which_nothing_is_known_has_no_role():
    assert leading_roles(with_weights(torch.zeros(2, 5, 5)), "h.0") == (None, None)


def test_each_head_of_a_cross_map_gets_its_role():
    found = leading_roles(a_translation(), "h.0")
    assert len(found) == HEADS
    assert {each.name for each in found} <= CROSSING


def test_a_window_that_hides_the_first_token_gives_it_nothing():
    assert (roles(a_text(mask=masks.window(1, 1)), "h.0")["first"] < 0.5).all()


def test_rows_of_a_decoder_have_no_next_token_to_look_at():
    assert roles(a_decoder(), "h.0")["next"].tolist() == [0, 0, 0]


def test_a_map_of_rows_elsewhere_has_no_neighbours():
    trace = a_text()
    each = trace["h.0"].part(range(8, 11), range(3))
    found = roles(with_map(trace, replace(each, rows=Axis("tokens", (8, 9, 10)))), "h.0")
    assert found["previous"].isnan().all()


def test_leading_roles_have_a_short_repr_and_a_table(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
    found = LeadingRoles([Role("offset", 0.75, -2), None])
    assert repr(found) == "<LeadingRoles: offset 75%, unknown>"
    table = found.to_pandas()
    assert (table["head"], table["role"], table["offset"]) == ([0, 1], ["offset", None], [-2, None])
    assert table["strength"][0] == 0.75
