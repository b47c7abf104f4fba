import torch

from models.recurrent.variants import SOURCE
from regard.attention import AdditiveScore, Mechanism, attend
from regard.masks import padding
from regard.models.recurrent.source_attention import SourceAttention, make_source_attention

ROWS, QUERIES, DIM, KEY_DIM = 3, 5, 11, 13


def sides():
    query = torch.randn(ROWS, QUERIES, DIM)
    states = torch.randn(ROWS, SOURCE, KEY_DIM)
    real = torch.ones(ROWS, SOURCE, dtype=torch.bool)
    real[0, 3:] = False
    return query, states, real


def test_keys_projected_once_give_the_context_of_the_additive_score():
    query, states, real = sides()
    score = AdditiveScore(DIM, KEY_DIM)
    expected = attend(query, states, states, Mechanism(score), padding(real))
    attention = SourceAttention(Mechanism(score), DIM, KEY_DIM)
    torch.testing.assert_close(attention.read(query, attention.memory(states, real)), expected)


def test_names_joined_make_one_mechanism():
    mechanism = make_source_attention(
        "additive + sparsemax + local-m", DIM, KEY_DIM, radius=2
    ).mechanism
    assert type(mechanism.score).__name__ == "ProjectedKeysAdditiveScore"
    assert type(mechanism.normalizer).__name__ == "Sparsemax"
    assert repr(mechanism.mask) == "window(2, 2)"
    assert (
        repr(make_source_attention("sliding-window", DIM, DIM, radius=3).mechanism.mask)
        == "window(3, 0)"
    )
    assert (
        repr(make_source_attention("general + causal", DIM, KEY_DIM).mechanism.mask) == "causal()"
    )


def test_one_query_has_the_gradients_of_many():
    query, states, _ = sides()
    attention = make_source_attention("additive", DIM, KEY_DIM).double()
    query, states = query.double().requires_grad_(), states.double().requires_grad_()
    memory = attention.memory(states, None)
    sources = (query, states, *attention.parameters())
    together = torch.autograd.grad(attention.read(query, memory).square().sum(), sources)
    memory = attention.memory(states, None)
    apart = [attention.read(query[:, i : i + 1], memory).square().sum() for i in range(QUERIES)]
    for one, other in zip(torch.autograd.grad(sum(apart), sources), together, strict=True):
        torch.testing.assert_close(one, other)
