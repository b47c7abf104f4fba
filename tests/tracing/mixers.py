"""Layers that mix the tokens of a stream by their contents, without weights that could be seen."""

import torch
import torch.nn.functional as F
from torch import nn

from tracing.written import LENGTH, WIDTH, causal, heads, scores


def linear_attention(q, k, v):
    return F.elu(q) @ (F.elu(k).mT @ v)


def linear_attention_with_sums(q, k, v):
    q, k, v = F.elu(heads(q)) + 1, F.elu(heads(k)) + 1, heads(v)
    state = torch.einsum("bnhd,bnhe->bhde", k, v)
    return torch.einsum("bnhd,bhde,bnh->bnhe", q, state, 1 / (q * k.sum(1, keepdim=True)).sum(-1))


def efficient_attention(q, k, v):
    """Keys normalised over tokens, queries over features (Shen et al. 2021)."""
    q, k, v = (heads(each).transpose(1, 2) for each in (q, k, v))
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


def cumulative_states(q, k, v):
    states = torch.einsum("bnd,bne->bnde", k, v).cumsum(dim=1)
    return torch.einsum("bnd,bnde->bne", q, states)


def cumulative_products(q, k, v):
    states = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(dim=1)
    return (q.unsqueeze(-1) * states).sum(-2)


def attention_free(q, k, v):
    """Exponentials of keys weight the values, alike for all queries (AFT, Zhai et al. 2021)."""
    weights = k.exp()
    return q.sigmoid() * (weights * v).sum(1, keepdim=True) / weights.sum(1, keepdim=True)


def states_summed_elementwise(q, k, v):
    state = (k[..., None] * v[..., None, :]).sum(dim=1)
    return q @ state


def channel_attention(q, k, v):
    return (v @ (q.mT @ k).softmax(-1)).contiguous()


def three_factors(q, k, v):
    return torch.einsum("bnd,bmd,bme->bne", q, k, v)


def sparse_weights(q, k, v):
    weights = scores(q[0], k[0]).to_sparse()
    return torch.sparse.mm(torch.sparse.softmax(weights, 1), v[0])[None]


def recurrence(q, k, v):
    """A state that is decayed by each token (Mamba, RWKV, RG-LRU)."""
    state, steps = torch.zeros_like(q[:, 0]), []
    for place in range(q.shape[1]):
        state = q[:, place].sigmoid() * state + k[:, place] * v[:, place]
        steps.append(state)
    return torch.stack(steps, dim=1)


def recurrence_of_exponentials(q, k, v):
    """Decays are exponentials of each token's own numbers (RG-LRU, Mamba)."""
    decay, state, steps = torch.exp(-F.softplus(q)), torch.zeros_like(q[:, 0]), []
    for place in range(q.shape[1]):
        state = decay[:, place] * state + v[:, place]
        steps.append(state)
    return torch.stack(steps, dim=1)


def recurrence_of_states(q, k, v):
    """The selective scan of Mamba (Gu and Dao 2023), tokens on the third axis."""
    decay = torch.exp(-torch.ones(WIDTH, 1)[None, :, None, :] * F.softplus(q).mT[..., None])
    change = (k.mT[..., None] * v[:, None]).float()
    state, steps = torch.zeros(len(q), WIDTH, WIDTH), []
    for place in range(q.shape[1]):
        state = decay[:, :, place, :] * state + change[:, :, place, :]
        steps.append(torch.matmul(state, k[:, place, :].unsqueeze(-1))[:, :, 0])
    return torch.stack(steps, dim=-1).mT


def recurrence_into_a_buffer(q, k, v):
    state, result = 0, torch.zeros_like(v)
    for place in range(q.shape[1]):
        state = k[:, place].sigmoid() * state + v[:, place]
        result[:, place] = state * q[:, place]
    return result


def recurrence_of_matrices(q, k, v):
    """The delta rule (Schlag et al. 2021)."""
    state, steps = torch.zeros(len(q), WIDTH, WIDTH), []
    for query, key, value in zip(q.unbind(1), k.unbind(1), v.unbind(1), strict=True):
        change = value - (state * key.unsqueeze(-1)).sum(-2)
        state = state + key.unsqueeze(-1) * change.unsqueeze(-2)
        steps.append((state * query.unsqueeze(-1)).sum(-2))
    return torch.stack(steps, dim=1)


def recurrence_of_slices(q, k, v):
    state, steps = torch.zeros_like(q[:, :1]), []
    for place in range(q.shape[1]):
        here = slice(place, place + 1)
        state = q[:, here].sigmoid() * state + k[:, here] * v[:, here]
        steps.append(state)
    return torch.cat(steps, dim=1)


def retention_in_chunks(q, k, v):
    state, chunks = torch.zeros(len(q), WIDTH, WIDTH), []
    for start in range(0, q.shape[1], 3):
        query, key, value = (each[:, start : start + 3] for each in (q, k, v))
        inside = (query @ key.mT * causal(query)) @ value
        chunks.append(inside + query @ state)
        state = state * 0.9 + key.mT @ value
    return torch.cat(chunks, dim=1)


def online_softmax(q, k, v):
    """Blocks of keys with a running maximum and sum (Milakov and Gimelshein 2018)."""
    top = torch.full((*q.shape[:2], 1), float("-inf"))
    total, context = torch.zeros(*q.shape[:2], 1), torch.zeros_like(q)
    for start in range(0, k.shape[1], 3):
        met = scores(q, k[:, start : start + 3])
        new = torch.maximum(top, met.amax(-1, keepdim=True))
        e, shrink = (met - new).exp(), (top - new).exp()
        total = total * shrink + e.sum(-1, keepdim=True)
        context, top = context * shrink + e @ v[:, start : start + 3], new
    return context / total


def summed_weighted_queries(q, k, v):
    """Additive attention of SwiftFormer (Shaker et al. 2023): one number for each query."""
    weights = (q @ torch.nn.Parameter(torch.ones(WIDTH, 1))).softmax(dim=-1)
    return (weights * q).sum(1, keepdim=True) * k


def dynamic_convolution(q, k, v):
    """Weights of three neighbours of each token (Wu et al. 2019)."""
    weights = F.linear(q, torch.nn.Parameter(torch.ones(3, WIDTH))).softmax(-1)
    neighbours = F.pad(v, (0, 0, 1, 1)).unfold(1, 3, 1)
    return (neighbours @ weights.unsqueeze(-1)).squeeze(-1)


def fourier(q, k, v):
    return torch.fft.fft(torch.fft.fft(v, dim=-1), dim=-2).real


def through_numpy(q, k, v):
    met = scores(q, k).softmax(-1).detach().numpy()
    return torch.from_numpy(met @ v.detach().numpy())


def values_through_numpy(q, k, v):
    q, k, v = (each.detach().numpy() for each in (q, k, v))
    return torch.as_tensor((q @ k.transpose(0, 2, 1)) @ v)


def attention_between_heads(q, k, v):
    q, k, v = heads(q), heads(k), heads(v)
    return ((q @ k.mT).softmax(-1) @ v).flatten(2)


def local_windows(q, k, v):
    """Each token at itself and its two neighbours."""
    k, v = (F.pad(each, (0, 0, 1, 1)).unfold(1, 3, 1) for each in (k, v))
    weights = (q.unsqueeze(2) @ k).softmax(-1)
    return (weights @ v.mT).squeeze(2)


SUMS = (
    *(linear_attention, linear_attention_with_sums, efficient_attention, cumulative_states),
    *(cumulative_products, states_summed_elementwise, attention_free),
    *(channel_attention, retention_in_chunks),
    *(summed_weighted_queries, three_factors),
)
LOOPS = (
    *(recurrence, recurrence_into_a_buffer, recurrence_of_matrices, recurrence_of_slices),
    *(recurrence_of_exponentials, recurrence_of_states),
)
BLOCKS = (online_softmax,)
TRANSFORMS = (fourier,)
NEIGHBOURS = (dynamic_convolution,)
SPARSE = (sparse_weights,)
NUMPY = (through_numpy, values_through_numpy)


def pooled_with_a_mask(q, k, v):
    mask = torch.ones(v.shape[:2]).tril()[..., None]
    return v + (v * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)


def gated(q, k, v):
    return F.silu(q) * k + v * q.mean(-1, keepdim=True)


def gated_by_all_tokens(q, k, v):
    return v * k.mean(1, keepdim=True).sigmoid()


def shifted(q, k, v):
    return q.sigmoid() * v + (1 - q.sigmoid()) * F.pad(v, (0, 0, 1, -1))


def normalised_over_tokens(q, k, v):
    return (v - v.mean(1, keepdim=True)) / (v * v).sum(1, keepdim=True).sqrt()


def recurrent_network(q, k, v):
    """A gated recurrent network written by hand: linear maps inside the loop."""
    state, steps, weight = torch.zeros_like(q[:, 0]), [], torch.nn.Parameter(torch.eye(WIDTH))
    for place in range(q.shape[1]):
        gate = (F.linear(q[:, place], weight) + F.linear(state, weight)).sigmoid()
        new = (F.linear(k[:, place], weight) + F.linear(state * gate, weight)).tanh()
        state = gate * state + (1 - gate) * new
        steps.append(state)
    return torch.stack(steps, dim=1)


def running_mean(q, k, v):
    return v.cumsum(1) / torch.arange(1, v.shape[1] + 1)[:, None]


def first_and_last_token(q, k, v):
    return v + (v[:, :1] * v[:, -1:]) + (v[:, 0] * v[:, -1])[:, None]


def similarities(q, k, v):
    return v + (q @ k.mT).amax(-1, keepdim=True)


def indexer(q, k, v):
    """Scores of heads, weighted and summed over heads, to select tokens (DeepSeek-AI 2025)."""
    met = F.relu(heads(q) @ k[..., : WIDTH // 3].mT.unsqueeze(1))  # batch query head key
    chosen = (q[..., :3].unsqueeze(-2) @ met).squeeze(-2).topk(2, dim=-1).indices
    return v + chosen.sum(-1, keepdim=True)


def paths(q, k, v):
    """Relations of relations: scores that are multiplied with scores."""
    met = scores(q, k).sigmoid()
    return v + (met @ met).amax(-1, keepdim=True)


OTHERS = (
    *(indexer, paths),
    *(pooled_with_a_mask, gated, gated_by_all_tokens, shifted, normalised_over_tokens),
    *(recurrent_network, running_mean, first_and_last_token, similarities),
)


class Layer(nn.Module):
    """A layer that mixes its tokens by a form: of queries, keys and values to a context."""

    def __init__(self, form):
        super().__init__()
        self.form, self.q, self.k, self.v = form, *(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        return self.form(self.q(x), self.k(x), self.v(x)).reshape(-1, LENGTH, WIDTH)
