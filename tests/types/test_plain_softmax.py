import pytest
import torch

from regard.kernels.observe import Scoring
from regard.masks import causal
from regard.types import RecomputableWeights
from regard.types.plain_softmax import is_plain_softmax, log_weight_factors, softmax_weights

HEADS, KEY_HEADS, LENGTH, DIM = 6, 2, 11, 5


@pytest.mark.parametrize("mask", [None, causal()])
def test_heads_computed_at_once_are_a_softmax_and_so_are_their_factors(mask):
    query, key = torch.randn(HEADS, LENGTH, DIM), torch.randn(KEY_HEADS, LENGTH, DIM)
    scores = query @ key.repeat_interleave(HEADS // KEY_HEADS, 0).mT * DIM**-0.5
    if mask is not None:
        scores = scores.masked_fill(~torch.ones(LENGTH, LENGTH).tril().bool(), -torch.inf)
    source = RecomputableWeights(query, key, scores.logsumexp(-1), Scoring(mask=mask))
    assert is_plain_softmax(source)
    expected = scores.softmax(-1)
    torch.testing.assert_close(softmax_weights(source, range(1, 4)), expected[1:4])
    queries, keys, rows = log_weight_factors(source, 4)
    visible = expected[4] > 0
    logs = queries @ keys.mT + rows[:, None]
    torch.testing.assert_close(logs[visible], expected[4].log()[visible])
