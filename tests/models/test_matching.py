"""A matcher scores a grid of pairs as it scores each pair; its attention is between the texts."""

import pytest
import torch

import regard
from regard.errors import ShapeError
from regard.models import from_pretrained
from regard.models.matching import Matcher

SIZES = {"vocab": 61, "d_embed": 10, "hidden": 14, "d_match": 6}


def a_matcher(**settings) -> Matcher:
    torch.manual_seed(5)
    return Matcher(**{**SIZES, **settings}).eval()


def rows(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids of these lengths, padded, and their mask."""
    longest = max(lengths)
    mask = torch.tensor([[1] * size + [0] * (longest - size) for size in lengths])
    return torch.randint(4, 61, mask.shape) * mask, mask


def pair(question: list[int], entry: list[int]) -> dict[str, torch.Tensor]:
    types = [0] * len(question) + [1] * len(entry)
    return {
        "input_ids": torch.tensor([question + entry]),
        "token_type_ids": torch.tensor([types]),
    }


def real(ids: torch.Tensor, mask: torch.Tensor) -> list[list[int]]:
    return [row[kept.bool()].tolist() for row, kept in zip(ids, mask, strict=True)]


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_the_grid_has_the_score_of_each_pair(cell):
    model = a_matcher(cell=cell)
    (asked, asked_mask), (entries, entry_mask) = rows(7, 3, 5), rows(2, 4, 1, 3)
    with torch.no_grad():
        grid = model.match(
            model.encode(asked, attention_mask=asked_mask),
            model.encode(entries, attention_mask=entry_mask),
        )
        for i, question in enumerate(real(asked, asked_mask)):
            for j, entry in enumerate(real(entries, entry_mask)):
                score = model(**pair(question, entry))[0, 0]
                torch.testing.assert_close(grid[i, j], score, atol=1e-5, rtol=1e-4)


def test_blocks_of_entries_change_no_score(monkeypatch):
    model, (asked, _), (entries, _) = a_matcher(), rows(7, 7), rows(3, 3, 3)
    with torch.no_grad():
        sides = model.encode(asked), model.encode(entries)
        whole = model.match(*sides)
        monkeypatch.setattr("regard.models.matching.model._NUMBERS", 1)
        torch.testing.assert_close(model.match(*sides), whole)


def test_a_padded_pair_has_the_score_that_it_has_alone():
    model, inputs = a_matcher(), pair([5, 7, 11], [13, 17])
    padded = {name: torch.cat([ids, torch.zeros(1, 3).long()], 1) for name, ids in inputs.items()}
    mask = torch.tensor([[1] * 5 + [0] * 3])
    with torch.no_grad():
        alone, beside = model(**inputs), model(**padded, attention_mask=mask)
    torch.testing.assert_close(beside, alone)


def test_a_token_attends_only_to_the_other_text():
    model = a_matcher()
    with regard.watch(model) as seen, torch.no_grad():
        model(**pair([5, 7, 11], [13, 17]))
    (attention_map,) = seen[0].maps
    weights = attention_map.weights()[0]
    assert weights[:3, :3].sum() == 0
    assert weights[3:, 3:].sum() == 0
    torch.testing.assert_close(weights.sum(1), torch.ones(5))


def test_a_matcher_needs_to_know_which_tokens_are_the_question():
    with pytest.raises(ShapeError, match="give token_type_ids"):
        a_matcher()(torch.tensor([[5, 7]]))


def test_a_matcher_is_saved_and_loaded(tmp_path):
    model, inputs = a_matcher(), pair([5, 7, 11], [13, 17])
    model.save_pretrained(tmp_path / "matcher")
    with torch.no_grad():
        torch.testing.assert_close(from_pretrained(tmp_path / "matcher")(**inputs), model(**inputs))


def test_gradients_reach_every_parameter():
    model = a_matcher()
    (asked, mask), (entries, _) = rows(7, 3), rows(2, 2, 2)
    model.match(model.encode(asked, attention_mask=mask), model.encode(entries)).sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in model.parameters())
