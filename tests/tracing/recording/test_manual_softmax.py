"""Weights in any layout become batch, head, query, key."""

import pytest
import torch

from regard.tracing.dataflow.origins import StreamPair, StreamSide
from regard.tracing.recording.manual_softmax import to_four_axes

BATCH, HEADS, QUERIES, KEYS = 2, 3, 5, 7
WEIGHTS = torch.rand(BATCH, HEADS, QUERIES, KEYS)


def pair(query, key, *, whole=True):
    return StreamPair(StreamSide("a", query, whole=whole), StreamSide("b", key), True)


@pytest.mark.parametrize(
    ("rows", "query", "key"),
    [
        (WEIGHTS, -2, -1),
        (WEIGHTS.mT, -1, -2),
        (WEIGHTS.permute(0, 2, 3, 1), -3, -2),
        (WEIGHTS.permute(2, 3, 0, 1), -4, -3),
        (WEIGHTS.permute(1, 0, 2, 3), -2, -1),
        (WEIGHTS.flatten(0, 1), -2, -1),
    ],
)
def test_axes_are_put_in_order(rows, query, key):
    assert torch.equal(to_four_axes(rows, pair(query, key), BATCH), WEIGHTS)


@pytest.mark.parametrize(
    ("rows", "key"),
    [
        (WEIGHTS[:, 0, 0], -1),
        (WEIGHTS[:, 0, 0, :, None], -2),
        (WEIGHTS[:, 0, :1], -1),
        (WEIGHTS[:, 0, 0].T, -2),
        (WEIGHTS[:, :1, :1], -1),
    ],
)
def test_without_an_axis_of_queries_there_is_one(rows, key):
    found = to_four_axes(rows, pair(None, key), BATCH)
    assert torch.equal(found, WEIGHTS[:, :1, :1])


def test_heads_that_pool_are_heads():
    found = to_four_axes(WEIGHTS[:, :, 0].mT, pair(None, -2), BATCH)
    assert torch.equal(found, WEIGHTS[:, :, :1])


def test_a_matrix_is_one_head_of_one_example():
    assert torch.equal(to_four_axes(WEIGHTS[0, 0], pair(-2, -1), 0), WEIGHTS[:1, :1])


def test_windows_are_parts_and_not_heads():
    folded = WEIGHTS.flatten(0, 1)
    found = to_four_axes(folded, pair(-2, -1, whole=False), BATCH)
    assert torch.equal(found, folded[:, None])


def test_heads_of_tokens_without_a_batch_are_heads():
    weights = torch.rand(HEADS, KEYS, KEYS)
    assert torch.equal(to_four_axes(weights, pair(-2, -1), KEYS), weights[None])
