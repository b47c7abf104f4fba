"""Pairs of tokens are found by a sorted table, and dropout hides whole tokens or whole columns."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from regard.errors import InputError
from regard.models import RecurrentClassifier, from_pretrained
from regard.models.recurrent.pairs import (
    PairedEmbedding,
    PairEmbedding,
    count_pairs,
    drop_columns,
)

PAIRS = [(7, 8), (5, 7), (30, 30), (0, 1)]


def table(pairs=PAIRS, rows=5):
    embedding = PairEmbedding(vocab=31, pairs=rows, dim=3)
    embedding.set_pairs(pairs)
    return embedding


def test_every_pair_has_the_row_of_its_place_in_the_sorted_table():
    embedding = table()
    assert embedding.known_pairs() == sorted(PAIRS)
    ids = torch.tensor([[0, 1, 5, 7, 8, 30, 30], [8, 7, 5, 0, 0, 1, 1]])
    plain = [
        [0] + [1 + sorted(PAIRS).index(pair) if pair in PAIRS else 0 for pair in pairwise(row)]
        for row in ids.tolist()
    ]
    assert embedding.rows(ids).tolist() == plain


def test_a_pair_that_is_not_known_has_zeros_and_no_gradient():
    embedding = table()
    vectors = embedding(torch.tensor([[9, 9, 5, 7]]))
    assert (vectors[0, :3] == 0).all()
    assert (vectors[0, 3] != 0).any()
    vectors.sum().backward()
    assert (embedding.table.weight.grad[0] == 0).all()


def test_a_table_without_pairs_finds_none():
    assert table([]).rows(torch.tensor([[5, 7, 8]])).tolist() == [[0, 0, 0]]
    assert table().rows(torch.tensor([[5]])).tolist() == [[0]]


def test_pairs_are_counted_within_a_row_only():
    assert count_pairs([[1, 2], [3, 1, 2], [2]]) == {(1, 2): 2, (3, 1): 1}


def test_a_model_keeps_its_pairs_in_a_checkpoint_of_8_bits(tmp_path):
    torch.manual_seed(0)
    model = RecurrentClassifier(vocab=300, d_embed=16, hidden=24, pairs=400).eval()
    model.words.pairs.set_pairs([(n, n + 1) for n in range(5, 299)])
    model.save_pretrained(tmp_path / "m", stored="int8")
    loaded, ids = from_pretrained(tmp_path / "m"), torch.arange(5, 36)[None]
    assert loaded.words.pairs.known_pairs() == model.words.pairs.known_pairs()
    torch.testing.assert_close(loaded(ids), model(ids), atol=1e-2, rtol=0)


def test_token_dropout_hides_whole_tokens_in_training_only():
    torch.manual_seed(0)
    embedding = PairedEmbedding(31, 7, 0, dropout=0.0, token_dropout=0.5)
    ids = torch.randint(5, 31, (11, 13))
    hidden = (embedding(ids) == 0).float().mean(-1)
    assert set(hidden.unique().tolist()) == {0.0, 1.0}
    assert 0.3 < float(hidden.mean()) < 0.7
    torch.testing.assert_close(embedding.eval()(ids), embedding.table(ids))


def test_dropped_columns_are_the_same_for_all_tokens_of_a_text():
    torch.manual_seed(0)
    dropped = drop_columns(torch.ones(5, 11, 40), nn.Dropout(0.5))
    assert (dropped == dropped[:, :1]).all()
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert (dropped[0, 0] != dropped[1, 0]).any()


def test_a_share_of_one_is_refused():
    with pytest.raises(InputError, match="token_dropout from 0 to below 1, got 1"):
        RecurrentClassifier(token_dropout=1.0)
