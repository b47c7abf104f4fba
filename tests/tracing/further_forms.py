"""Forms of attention by hand beyond those of `written`: rarer functions, blocks, a pointer."""

import torch
import torch.nn.functional as F

from tracing.written import BATCH, HEAD, HEADS, LENGTH, heads, scores


def exponents_and_one(q, k, v):
    """A key without a value takes weight too (softmax1)."""
    met = scores(q, k)
    most = met.amax(-1, keepdim=True).clamp_min(0)
    e = (met - most).exp()
    weights = e / (e.sum(-1, keepdim=True) + (-most).exp())
    return weights[:, None], weights @ v


def normalised_exponents(q, k, v):
    weights = F.normalize(scores(q, k).exp(), p=1, dim=-1)
    return weights[:, None], weights @ v


def powers(q, k, v):
    e = 2.5 ** scores(q, k)
    weights = e / e.sum(-1, keepdim=True)
    return weights[:, None], weights @ v


def powers_of_two(q, k, v):
    e = torch.exp2(scores(q, k))
    weights = e / e.sum(-1, keepdim=True)
    return weights[:, None], weights @ v


def special_softmax(q, k, v):
    weights = torch.special.softmax(torch.linalg.matmul(q, k.mT), -1)
    return weights[:, None], torch.linalg.matmul(weights, v)


def vectors_compared(q, k, v):
    weights = torch.linalg.vecdot(q[:, :, None], k[:, None]).softmax(-1)
    return weights[:, None], torch.linalg.vecdot(weights[:, :, None], v.mT[:, None])


def averaged(q, k, v):
    weights = scores(q, k).softmax(-1)
    return weights[:, None], (weights.unsqueeze(-1) * v.unsqueeze(1)).mean(dim=2) * LENGTH


def gated_in_one_einsum(q, k, v):
    weights = scores(q, k).softmax(-1)
    return weights[:, None], torch.einsum("bqk,bkd,bqd->bqd", weights, v, q.sigmoid())


def copied(q, k, v):
    """A pointer copies each key to a place of its own (See et al. 2017)."""
    weights = scores(q, k).softmax(-1)
    places = torch.arange(LENGTH).flip(0).expand(BATCH, LENGTH, LENGTH)
    return weights[:, None], torch.zeros_like(weights).scatter_add(2, places, weights)


def matrices_of_one_example(q, k, v):
    """Functions of two matrices, in a loop over examples."""
    weights, contexts = [], []
    for query, key, value in zip(q, k, v, strict=True):
        row = torch.inner(query, key).softmax(-1)
        weights.append(row)
        contexts.append(torch.linalg.multi_dot([row, value, torch.eye(value.shape[-1])]))
    return torch.stack(weights)[:, None], torch.stack(contexts)


def heads_of_one_example(q, k, v):
    weights, contexts = [], []
    for sides in zip(q, k, v, strict=True):
        query, key, value = (side.view(-1, HEADS, HEAD).transpose(0, 1) for side in sides)
        weights.append((query @ key.mT).softmax(-1))
        contexts.append((weights[-1] @ value).transpose(0, 1).flatten(1))
    return torch.stack(weights), torch.stack(contexts)


def heads_of_one_fused_example(q, k, v):
    weights, contexts = [], []
    for number in range(len(q)):
        sides = (side[number].view(-1, HEADS, HEAD).transpose(0, 1) for side in (q, k, v))
        query, key, value = sides
        weights.append((query @ key.mT / HEAD**0.5).softmax(-1))
        context = F.scaled_dot_product_attention(query, key, value)
        contexts.append(context.transpose(0, 1).flatten(1))
    return torch.stack(weights), torch.stack(contexts)


FORMS = (
    *(exponents_and_one, normalised_exponents, powers, powers_of_two, special_softmax),
    *(vectors_compared, averaged, gated_in_one_einsum, copied),
    *(matrices_of_one_example, heads_of_one_example, heads_of_one_fused_example),
)

BLOCK = 3


def _join_blocks(weights):
    """Weights (batch, head, block, query, key) within blocks as one map of all tokens."""
    batch, count, blocks, size, _ = weights.shape
    whole = weights.new_zeros(batch, count, blocks, size, blocks, size)
    for number in range(blocks):
        whole[:, :, number, :, number] = weights[:, :, number]
    return whole.view(batch, count, blocks * size, -1)


def blocks(q, k, v):
    q, k, v = (side.reshape(BATCH, -1, BLOCK, side.shape[-1]) for side in (q, k, v))
    weights = scores(q, k).softmax(-1)
    return _join_blocks(weights[:, None]), (weights @ v).flatten(1, 2)


def blocks_of_heads(q, k, v):
    sides = (heads(side).transpose(1, 2) for side in (q, k, v))
    q, k, v = (side.reshape(BATCH, HEADS, -1, BLOCK, HEAD) for side in sides)
    weights = scores(q, k).softmax(-1)
    return _join_blocks(weights), (weights @ v).flatten(2, 3).transpose(1, 2).flatten(2)


def dilated_blocks(q, k, v):
    """Every second token attends to every second one."""
    length = q.shape[1]
    split = (side.reshape(BATCH, -1, 2, side.shape[-1]).transpose(1, 2) for side in (q, k, v))
    q, k, v = split
    weights = scores(q, k).softmax(-1)
    whole = weights.new_zeros(BATCH, 1, length, length)
    for start in range(2):
        whole[:, 0, start::2, start::2] = weights[:, start]
    return whole, (weights @ v).transpose(1, 2).flatten(1, 2)


BLOCKS = (blocks, blocks_of_heads, dilated_blocks)
