"""Every method by its name, from one registry."""

import pytest
import torch

from regard.attribution import ATTRIBUTION_METHODS, attribute
from regard.errors import UnknownNameError
from regard.types import Attribution
from studies.tiny_models import SOUGHT, Finder, reader, tokenizer, translator, writer

IDS = {"input_ids": torch.tensor([[5, 2, 7, SOUGHT, 9]])}
TEXT = "we love tea and cats"


@pytest.mark.parametrize("method", ATTRIBUTION_METHODS)
def test_every_method_finds_the_one_token_that_matters(method: str) -> None:
    found = attribute(Finder(), None, IDS, method)
    assert isinstance(found, Attribution)
    assert (found.method, found.objective, found.ranking[0]) == (method, "class", 3)


@pytest.mark.parametrize("method", ATTRIBUTION_METHODS)
@pytest.mark.parametrize("make", [writer, reader, translator])
def test_every_method_has_a_number_for_each_token_of_any_model(method: str, make) -> None:  # type: ignore[no-untyped-def]
    found = attribute(make(), tokenizer(), TEXT, method)
    assert found.values.shape == (len(found.tokens),)
    assert found.values.isfinite().sum() >= len(TEXT.split()) - 1  # special tokens may be unknown


def test_a_method_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"attribution method.*rollout"):
        attribute(Finder(), None, IDS, "rolout")


def test_the_objective_may_be_the_callers() -> None:
    found = attribute(Finder(), None, IDS, "occlusion", objective=lambda output: output[:, SOUGHT])
    assert (found.objective, found.output) == ("custom", pytest.approx(10))
    torch.testing.assert_close(found.values, torch.tensor([0, 0, 0, 10, 0]).double())
