"""Scores, weights and contexts that are written into tensors part by part, or by `out=`."""

import pytest
import torch
from torch import nn

import regard
from regard.tracing import knock_out

BATCH, HEADS, LENGTH, DIM = 2, 3, 7, 5


def softmax_of(q, k):
    return (q @ k.mT).softmax(-1)


def by_head(q, k, v):
    scores = torch.empty(BATCH, HEADS, LENGTH, LENGTH)
    for head in range(HEADS):
        scores[:, head] = q[:, head] @ k[:, head].mT
    return scores.softmax(-1) @ v


def by_example(q, k, v):
    scores = torch.empty(BATCH, HEADS, LENGTH, LENGTH)
    for row in range(BATCH):
        scores[row] = q[row] @ k[row].mT
    return scores.softmax(-1) @ v


def by_query(q, k, v):
    scores = torch.empty(BATCH, HEADS, LENGTH, LENGTH)
    for place in range(LENGTH):
        scores[:, :, place] = (q[:, :, place, None] @ k.mT).squeeze(2)
    return scores.softmax(-1) @ v


def by_query_block(q, k, v):
    scores = torch.zeros(BATCH, HEADS, LENGTH, LENGTH)
    for start in range(0, LENGTH, 3):
        scores[..., start : start + 3, :] = q[:, :, start : start + 3] @ k.mT
    return scores.softmax(-1) @ v


def by_weights_of_heads(q, k, v):
    weights = torch.empty(BATCH, HEADS, LENGTH, LENGTH)
    for head in range(HEADS):
        weights[:, head] = softmax_of(q[:, head], k[:, head])
    return weights @ v


def by_out(q, k, v):
    scores = torch.matmul(q, k.mT, out=torch.empty(BATCH, HEADS, LENGTH, LENGTH))
    weights = torch.softmax(scores, -1, out=torch.empty_like(scores))
    return torch.matmul(weights, v, out=torch.empty_like(v))


def by_folded_out(q, k, v):
    q, k, v = (side.flatten(0, 1) for side in (q, k, v))
    scores = torch.empty(len(q), LENGTH, LENGTH)
    torch.baddbmm(torch.zeros(1), q, k.mT, out=scores)
    context = torch.bmm(scores.softmax(-1), v, out=torch.empty_like(v))
    return context.unflatten(0, (BATCH, HEADS))


def by_view(q, k, v):
    scores = torch.empty(BATCH, HEADS, LENGTH, LENGTH)
    torch.matmul(q[0], k[0].mT, out=scores[0])
    scores[1].copy_(q[1] @ k[1].mT)
    return scores.softmax(-1) @ v


def by_distance(q, k, v):
    scores = -torch.cdist(q, k).square() + k.square().sum(-1)[:, :, None]
    return torch.softmax(scores / 2, dim=-1) @ v


def by_plain_distance(q, k, v):
    return torch.softmax(-torch.cdist(q, k), dim=-1) @ v


class Attention(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.form, self.sides = form, nn.Linear(11, 3 * HEADS * DIM)

    def forward(self, x):
        q, k, v = self.sides(x).view(BATCH, LENGTH, 3, HEADS, DIM).permute(2, 0, 3, 1, 4)
        return self.form(q, k, v).transpose(1, 2).flatten(2)

    def true_weights(self, x):
        q, k, _ = self.sides(x).view(BATCH, LENGTH, 3, HEADS, DIM).permute(2, 0, 3, 1, 4)
        scores = -torch.cdist(q, k) if self.form is by_plain_distance else q @ k.mT
        return scores.softmax(-1)


FORMS = [
    *(by_head, by_example, by_query, by_query_block, by_weights_of_heads),
    *(by_out, by_folded_out, by_view, by_distance, by_plain_distance),
]


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_parts_that_are_written_one_by_one_are_one_map(form):
    torch.manual_seed(3)
    model, x = Attention(form), torch.randn(BATCH, LENGTH, 11)
    plain = model(x)
    with regard.watch(model) as seen:
        assert torch.equal(model(x), plain)
    assert len(seen) == BATCH
    for trace, weights in zip(seen, model.true_weights(x), strict=True):
        torch.testing.assert_close(trace["Attention"].weights(), weights)


def by_columns(q, k, v):
    scores = torch.empty(BATCH, HEADS, LENGTH, LENGTH)
    scores[..., :3], scores[..., 3:] = q @ k[:, :, 4:].mT, q @ k[:, :, :4].mT
    return scores.softmax(-1) @ v.roll(3, dims=2)


@torch.no_grad()
def test_columns_that_are_written_in_another_order_are_put_back_in_place():
    model, x = Attention(by_columns), torch.randn(BATCH, LENGTH, 11)
    with regard.watch(model) as seen:
        model(x)
    for trace, weights in zip(seen, model.true_weights(x), strict=True):
        torch.testing.assert_close(trace["Attention"].weights(), weights)


def by_other_columns(q, k, v):
    scores = torch.empty(BATCH, HEADS, LENGTH, LENGTH)
    scores[..., :3], scores[..., 3:] = q @ k[:, :, 4:].mT, q @ k[:, :, :4].mT
    return scores.softmax(-1) @ v


@torch.no_grad()
def test_columns_whose_keys_are_not_those_of_the_values_are_a_gap():
    model, x = Attention(by_other_columns), torch.randn(BATCH, LENGTH, 11)
    with regard.watch(model) as seen:
        model(x)
    assert not seen[0].maps
    assert "rearranged" in seen[0].gaps[0].reason


class SharedBuffer(nn.Module):
    """Two layers that write their weights to the same memory."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(11, 11) for _ in range(2))
        self.weights = torch.empty(BATCH, LENGTH, LENGTH)

    def forward(self, x):
        for layer in self.layers:
            scores = layer(x) @ x.mT
            x = torch.softmax(scores, -1, out=self.weights) @ x
        return x


@torch.no_grad()
def test_weights_in_a_buffer_that_is_written_to_again_are_kept():
    model, x = SharedBuffer(), torch.randn(BATCH, LENGTH, 11)
    with regard.watch(model) as seen:
        model(x)
    first = softmax_of(model.layers[0](x), x)
    torch.testing.assert_close(seen[0].maps[0].weights()[0], first[0])


@torch.no_grad()
def test_an_edited_context_is_written_to_the_tensor_that_the_caller_gave():
    model, x = Attention(by_out), torch.randn(BATCH, LENGTH, 11)
    with regard.watch(model, edit=knock_out("*", heads=[1])):
        context = model(x).unflatten(-1, (HEADS, DIM))
    assert not context[:, :, 1].any()
    assert context[:, :, 0].any()
