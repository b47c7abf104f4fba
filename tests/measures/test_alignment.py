"""Links from weights, and their agreement with links drawn by hand."""

import pytest
import torch

from regard.errors import InputError, ShapeError
from regard.measures import (
    GoldLinks,
    LinkAgreement,
    agreement,
    argmax_links,
    grow_diag,
    intersect_links,
    merge_pieces,
    read_gold_links,
    threshold_links,
)

# target 我 爱 你 over source I love you
FORWARD = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.3, 0.6]])


def test_each_target_word_is_linked_to_the_source_word_it_looked_at_most() -> None:
    assert argmax_links(FORWARD) == {(0, 0), (1, 1), (2, 2)}


def test_a_target_word_that_looked_nowhere_has_no_link() -> None:
    assert argmax_links(torch.tensor([[0.0, 0.0], [0.2, 0.8]])) == {(1, 1)}


def test_a_threshold_draws_every_link_that_reaches_it() -> None:
    assert threshold_links(FORWARD, 0.3) == {(0, 0), (1, 1), (2, 1), (1, 2), (2, 2)}


def test_mutual_links_are_drawn_by_both_directions() -> None:
    backward = torch.tensor([[0.9, 0.1, 0.0], [0.6, 0.4, 0.0], [0.0, 0.1, 0.9]])
    assert intersect_links(FORWARD, backward) == {(0, 0), (2, 2)}


def test_growing_adds_neighbours_whose_words_have_no_link_yet() -> None:
    backward = torch.tensor([[0.9, 0.1, 0.0], [0.6, 0.4, 0.0], [0.0, 0.1, 0.9]])
    found = grow_diag(FORWARD, backward)
    assert intersect_links(FORWARD, backward) < found
    assert (1, 1) in found or (1, 0) in found


def test_growing_leaves_far_links_out() -> None:
    forward = torch.eye(5)
    forward[4] = torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0])
    backward = torch.eye(5)
    backward[4] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0])
    assert grow_diag(forward, backward) == {(n, n) for n in range(4)}


def test_a_word_receives_what_its_pieces_receive_and_looks_as_they_do_on_average() -> None:
    pieces = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4], [0.0, 1.0, 0.0, 0.0]])
    words = merge_pieces(pieces, rows=[0, 0, 1], columns=[0, 1, 1, None])
    torch.testing.assert_close(words, torch.tensor([[0.2, 0.4], [0.0, 1.0]]))


def test_weights_that_do_not_fit_their_words_are_refused() -> None:
    with pytest.raises(ShapeError, match="expected weights of 2 rows and 3 columns"):
        merge_pieces(FORWARD, [0, 1], [0, 1, 2])


def test_gold_links_are_read_in_both_forms_and_directions() -> None:
    assert read_gold_links("0-0 1p2") == GoldLinks(frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)}))
    assert read_gold_links("1-1 2p3", first=1) == read_gold_links("0-0 1p2")
    assert read_gold_links("0-0 2p1", reverse=True) == read_gold_links("0-0 1p2")


@pytest.mark.parametrize("word", ["1", "a-b", "0-0", "1:2"])
def test_links_that_are_none_are_named(word: str) -> None:
    with pytest.raises(InputError, match=f"got '{word}'"):
        read_gold_links(f"1-1 {word}", first=1)


def test_a_sure_link_must_be_possible() -> None:
    with pytest.raises(InputError, match="every sure link is also possible"):
        GoldLinks(frozenset({(0, 0)}), frozenset())


def test_the_error_rate_is_that_of_och_and_ney() -> None:
    found = [frozenset({(0, 0), (1, 1), (2, 1)})]
    gold = [GoldLinks(frozenset({(0, 0), (3, 3)}), frozenset({(0, 0), (3, 3), (1, 1)}))]
    expected = LinkAgreement(precision=2 / 3, recall=1 / 2, error_rate=1 - (1 + 2) / (3 + 2))
    assert agreement(found, gold) == expected


def test_perfect_links_have_no_error() -> None:
    gold = read_gold_links("0-0 1-1 2p2")
    assert agreement([gold.sure], [gold]).error_rate == 0.0


def test_no_links_at_all_are_refused() -> None:
    with pytest.raises(InputError, match="got none at all"):
        agreement([frozenset()], [GoldLinks(frozenset(), frozenset())])
