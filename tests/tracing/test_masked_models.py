"""Masks that hide more than padding: no token is dropped, and outputs stay the model's own."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import regard

BATCH, HEADS, LENGTH, DIM = 3, 2, 11, 5


class Masked(nn.Module):
    """Embeds ids and attends once under a mask, fused or by hand."""

    def __init__(self, *, by_hand=False):
        super().__init__()
        self.embedding, self.by_hand = nn.Embedding(50, HEADS * DIM), by_hand

    def forward(self, ids, mask, attention_mask=None):
        x = self.embedding(ids).unflatten(-1, (HEADS, DIM)).transpose(1, 2)
        if self.by_hand:
            return self.weights(ids, mask) @ x
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    def weights(self, ids, mask):
        """The weights that the model uses, computed by hand."""
        x = self.embedding(ids).unflatten(-1, (HEADS, DIM)).transpose(1, 2)
        scores = x @ x.mT / DIM**0.5
        hidden = (
            scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
        )
        return hidden.softmax(-1)


def ids():
    return torch.randint(50, (BATCH, LENGTH))


def prefix_mask():
    """The first three tokens see each other, the rest is causal."""
    mask = torch.ones(LENGTH, LENGTH).tril().bool()
    mask[:, :3] = True
    return mask[None, None]


def packed_mask():
    """Documents of one, three and seven tokens in one row."""
    return torch.block_diag(*(torch.ones(n, n) for n in (1, 3, 7))).bool()[None, None]


def sparse_mask():
    """A causal mask in which the last token does not see itself."""
    mask = torch.ones(LENGTH, LENGTH).tril().bool()
    mask[5:, 5:] = False
    mask[7, 6] = True
    return mask[None, None]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("mask", [prefix_mask, packed_mask, sparse_mask])
def test_a_mask_of_pairs_alone_drops_no_token(mask, by_hand):
    model, words = Masked(by_hand=by_hand), ids()
    with torch.no_grad(), regard.watch(model) as seen:
        model(words, mask())
        expected = model.weights(words, mask())
    for trace, weights in zip(seen, expected, strict=True):
        torch.testing.assert_close(trace.maps[0].weights(), weights, atol=1e-6, rtol=0)


@pytest.mark.parametrize("by_hand", [False, True])
def test_padding_is_what_the_caller_says(by_hand):
    real = torch.arange(LENGTH) < torch.tensor([LENGTH, 7, 5])[:, None]
    model = Masked(by_hand=by_hand)
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids(), prefix_mask(), attention_mask=real.long())
    assert [trace.maps[0].shape[1:] for trace in seen] == [(11, 11), (7, 7), (5, 5)]


def levelled_mask():
    """A causal mask of numbers; the first rows of the last example see nothing but padding."""
    lowest = torch.finfo(torch.float32).min
    padding = torch.zeros(BATCH, 1, 1, LENGTH)
    padding[-1, ..., :4] = lowest
    return (torch.full((LENGTH, LENGTH), lowest).triu(1) + padding).clamp_min(lowest)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("lowest", [-1e4, torch.finfo(torch.float32).min])
def test_rows_that_see_nothing_are_the_model_s_own(by_hand, beside, lowest):
    model, words, mask = Masked(by_hand=by_hand), ids(), levelled_mask().clamp_min(lowest)
    with torch.no_grad():
        alone = model(words, mask)
        with regard.watch(model, beside=beside) as seen:
            watched = model(words, mask)
        expected = model.weights(words, mask)
    assert torch.equal(watched, alone)
    rows = seen[-1].maps[0].shape[1]
    torch.testing.assert_close(
        seen[-1].maps[0].weights(), expected[-1, :, -rows:, -rows:], atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("bias", [causal_upper_left, causal_lower_right])
def test_a_bias_that_only_its_class_knows_is_obeyed(bias, beside):
    model, words = Masked(), ids()
    causal = torch.ones(LENGTH, LENGTH).tril().bool()
    with torch.no_grad():
        alone = model(words, bias(LENGTH, LENGTH))
        with regard.watch(model, beside=beside) as seen:
            watched = model(words, bias(LENGTH, LENGTH))
        expected = model.weights(words, causal)
    torch.testing.assert_close(watched, alone, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(seen[1].maps[0].weights(), expected[1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("bias", [causal_upper_left, causal_lower_right])
def test_a_causal_bias_over_more_keys_than_queries_is_obeyed(bias):
    query, key = torch.randn(BATCH, HEADS, 4, DIM), torch.randn(BATCH, HEADS, LENGTH, DIM)

    class Crossing(nn.Module):
        def forward(self, query, key):
            return F.scaled_dot_product_attention(query, key, key, attn_mask=bias(4, LENGTH))

    alone = Crossing()(query, key)
    with regard.watch(Crossing()) as seen, torch.no_grad():
        watched = Crossing()(query, key)
    torch.testing.assert_close(watched, alone, atol=1e-6, rtol=1e-5)
    visible = seen[0].maps[0].weights() > 0
    start = 0 if bias is causal_upper_left else LENGTH - 4
    assert torch.equal(visible[0].sum(-1), torch.arange(start + 1, start + 5))
