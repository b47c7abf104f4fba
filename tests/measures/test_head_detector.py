import pytest
import torch

from measures.attending import (
    HEADS,
    LENGTH,
    SOURCES,
    TEXT,
    a_decoder,
    a_text,
    a_translation,
    of_source,
)
from regard.errors import InputError, UnknownNameError
from regard.measures.head_detector import ROLES, pattern_share
from regard.measures.repeated_tokens import repeat_attention
from regard.measures.roles import roles
from regard.types import Tokens


def pattern(role, ids):
    """The detection patterns of TransformerLens, as it defines them."""
    ids = torch.tensor(ids)
    previous = torch.eye(len(ids)).roll(-1, 1).tril(-1)
    same = (ids == ids[:, None]).float().fill_diagonal_(0).tril()
    after = same.roll(1, 1)
    after[:, 0] = 0
    return {"previous": previous, "duplicate": same, "induction": after.tril()}[role].double()


def by_multiplying(weights, wanted, *, exclude_bos=False, exclude_current_token=False):
    """Its error measure "mul"."""
    weights = weights.clone()
    if exclude_bos:
        weights[:, 0] = 0
    if exclude_current_token:
        weights.fill_diagonal_(0)
    return (weights * wanted).sum() / weights.sum()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("itself", [False, True])
def test_a_head_is_detected_as_transformer_lens_does(role, source, first, itself):
    trace = a_decoder()
    wanted = pattern(role, TEXT.ids)
    kept = {"exclude_bos": first, "exclude_current_token": itself}
    expected = [by_multiplying(head, wanted, **kept) for head in trace["h.0"].weights()]
    sides = {"without_first": first, "without_self": itself}
    found = pattern_share(of_source(trace, source), "h.0", role, **sides)
    torch.testing.assert_close(found, torch.stack(expected))


def test_the_previous_role_counts_the_rows_that_have_a_token_before():
    trace = a_decoder()
    found = roles(trace, "h.0")["previous"] * (LENGTH - 1) / LENGTH
    torch.testing.assert_close(found, pattern_share(trace, "h.0", "previous"))


@pytest.mark.parametrize("role", ["duplicate", "induction"])
def test_roles_of_repeats_count_the_rows_whose_token_came_before(role):
    trace = a_decoder()
    found = roles(trace, "h.0")[role] * repeat_attention(trace, "h.0").rows / LENGTH
    torch.testing.assert_close(found, pattern_share(trace, "h.0", role))


def test_a_token_after_itself_is_what_followed_it():
    trace = a_text(tokens=Tokens(("a",) * LENGTH))
    expected = trace["h.0"].weights().tril()[:, :, 1:].sum(dim=(1, 2)) / LENGTH
    torch.testing.assert_close(pattern_share(trace, "h.0", "induction"), expected)


def test_unknown_tokens_leave_repeats_unknown():
    trace = a_text(tokens=Tokens.positions(LENGTH))
    assert pattern_share(trace, "h.0", "induction").isnan().all()
    assert pattern_share(trace, "h.0", "previous").isfinite().sum() == HEADS


def test_an_unknown_role_is_refused_with_those_that_are_known():
    with pytest.raises(UnknownNameError, match="no role to detect 'inductive'; did you mean 'indu"):
        pattern_share(a_text(), "h.0", "inductive")


def test_a_cross_map_is_refused():
    with pytest.raises(InputError, match="looks from one text at another"):
        pattern_share(a_translation(), "h.0", "previous")
