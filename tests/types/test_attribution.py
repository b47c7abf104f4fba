"""The values of attributions: order, repr and table."""

import sys
import types

import pytest
import torch

from regard.errors import InputError
from regard.types import Attribution, Tokens

VALUES = torch.tensor([0.1, torch.nan, 0.5, 0.3, 0.2])


@pytest.fixture
def found() -> Attribution:
    return Attribution("rollout", "next token", 0.5, Tokens(tuple("abcde")), VALUES)


def test_tokens_are_ranked_by_their_values_and_unknown_ones_come_last(found: Attribution) -> None:
    assert found.ranking == [2, 3, 4, 0, 1]


def test_the_repr_names_the_first_three_tokens_and_those_without_a_value(
    found: Attribution,
) -> None:
    assert repr(found) == (
        "<Attribution of 'next token' by rollout: c 0.5, d 0.3, e 0.2, …; left out: b>"
    )


def test_the_table_has_a_row_for_each_token(
    found: Attribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = types.SimpleNamespace(DataFrame=dict)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    table = found.to_pandas()
    assert table["token"] == list("abcde")
    assert table["value"][2] == 0.5


def test_without_pandas_one_sentence_says_how_to_install_it(
    found: Attribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="install it with: pip install pandas"):
        found.to_pandas()
