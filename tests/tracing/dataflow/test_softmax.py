"""What two tensors are together, where one of them may be scores."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import regard
from regard.tracing.dataflow.origins import (
    LOST,
    Exponentials,
    Origin,
    StreamPair,
    StreamSide,
    stream_origin,
)
from regard.tracing.dataflow.softmax import elementwise_origin

TOKENS, DIM, ROOM = 5, 4, 7
UNNAMED = Origin(pair=StreamPair(StreamSide(None, -2), StreamSide(None, -1), True))


@pytest.mark.parametrize("swapped", [False, True])
def test_vectors_times_rotary_positions_stay_in_their_stream(swapped):
    vectors, angles = torch.zeros(2, 3, TOKENS, DIM), torch.zeros(TOKENS, DIM)
    operands, origins = (vectors, angles), (stream_origin("tokens", -2), UNNAMED)
    if swapped:
        operands, origins = operands[::-1], origins[::-1]
    assert elementwise_origin("mul", operands, origins, vectors) is stream_origin("tokens", -2)


def test_scores_of_no_stream_times_a_gate_stay_scores():
    scores, gate = torch.zeros(2, TOKENS, TOKENS), torch.zeros(2, TOKENS, 1)
    origins = (UNNAMED, stream_origin("tokens", -2))
    assert elementwise_origin("mul", (scores, gate), origins, scores) is UNNAMED


def test_a_bias_of_a_stream_leaves_scores_of_no_stream_scores():
    scores = torch.zeros(2, TOKENS, TOKENS)
    origins = (UNNAMED, stream_origin("bias", -2))
    assert elementwise_origin("add", (scores, scores), origins, scores) is UNNAMED


@pytest.mark.parametrize("swapped", [False, True])
def test_tokens_plus_a_weighted_mixture_of_experts_stay_tokens(swapped):
    tokens = torch.zeros(2, TOKENS, DIM)
    router = StreamPair(StreamSide("tokens", LOST, "flat"), StreamSide(None, LOST, "features"))
    mixture = Origin("tokens", LOST, "flat", router, Exponentials(tokens))
    origins = (stream_origin("tokens", -2), mixture)
    origins = origins[::-1] if swapped else origins
    assert elementwise_origin("add", (tokens, tokens), origins, tokens) is stream_origin(
        "tokens", -2
    )


class Rotary(nn.Module):
    """Attends to a cache with room to spare, with angles from a product of two matrices."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, DIM)

    def forward(self, ids):
        angles = torch.arange(TOKENS)[:, None].float() @ torch.ones(1, DIM)
        vectors = self.embedding(ids)[:, None] * angles.cos()
        cache = torch.zeros(len(ids), 1, ROOM, DIM)
        cache.index_copy_(2, torch.arange(TOKENS), vectors)
        mask = torch.ones(TOKENS, ROOM, dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(vectors, cache, cache, attn_mask=mask)


def test_self_attention_with_rotary_positions_and_a_static_cache_is_no_cross_attention():
    with regard.watch(model := Rotary()) as seen:
        model(torch.randint(11, (1, TOKENS)))
    (attention_map,) = seen[0]
    assert (attention_map.kind, attention_map.shape) == ("decoder", (1, TOKENS, TOKENS))


class ClampedByScript(nn.Module):
    """Attention whose scores go through a compiled function, which shows nothing of itself."""

    def __init__(self):
        super().__init__()
        self.embedding, self.key = nn.Embedding(31, 6), nn.Linear(6, 6)
        self.clamp = torch.jit.trace(lambda scores: (scores / 5).tanh() * 5, torch.zeros(1))

    def forward(self, ids):
        x = self.embedding(ids)
        self.expected = self.clamp(x @ self.key(x).mT).softmax(-1)
        return self.expected @ x


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit
def test_weights_of_scores_that_a_compiled_function_returns_are_a_map():
    model, ids = ClampedByScript(), torch.randint(31, (2, 7))
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    for number, trace in enumerate(seen):
        (shown,) = trace.maps
        assert torch.equal(shown.weights(0), model.expected[number])
