import pytest
import torch

import regard
from regard.attention import DotScore, Hard, Mechanism, StraightThrough
from regard.attention.hard import best
from regard.masks import causal, explicit

QUERIES, KEYS, DIM, VALUE_DIM = 3, 5, 7, 11


def sides():
    sizes = ((QUERIES, DIM), (KEYS, DIM), (KEYS, VALUE_DIM))
    return [torch.randn(size, dtype=torch.float64) for size in sizes]


def hard():
    return Mechanism(DotScore(), Hard())


def test_the_choice_is_the_value_of_the_chosen_key():
    query, key, value = sides()
    choice = regard.choose(query, key, value, hard().train())
    assert torch.equal(choice.context, value[choice.index])


def test_evaluating_takes_the_most_likely_key():
    query, key, value = sides()
    best = (query @ key.T).argmax(-1)
    assert torch.equal(regard.attend(query, key, value, hard().eval()), value[best])
    assert torch.equal(regard.choose(query, key, value, hard().eval()).index, best)


def test_the_log_probability_is_that_of_the_softmax():
    query, key, value = sides()
    choice = regard.choose(query, key, value, hard().train())
    log = (query @ key.T).log_softmax(-1)
    torch.testing.assert_close(choice.log_probability, log[range(QUERIES), choice.index])


def test_samples_follow_the_softmax():
    scores = torch.tensor([0.0, 1.0, 2.0, -1.0, 0.5])
    query, key = torch.ones(20000, 1), scores[:, None]
    choice = regard.choose(query, key, key, hard().train())
    shares = torch.bincount(choice.index, minlength=KEYS) / 20000
    torch.testing.assert_close(shares, scores.softmax(-1), atol=0.01, rtol=0)


def test_a_generator_repeats_the_choice():
    query, key, value = sides()
    draws = [
        regard.choose(query, key, value, hard().train(), generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    ]
    assert torch.equal(draws[0].index, draws[1].index)


def test_a_hidden_key_is_never_chosen_and_a_blind_query_chooses_none():
    query, key, value = sides()
    for _ in range(50):
        choice = regard.choose(query, key, value, hard().train(), causal())
        assert (choice.index <= torch.arange(QUERIES)).all()
    seen = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    seen[1] = False
    choice = regard.choose(query, key, value, hard().train(), explicit(seen))
    assert choice.index[1] == -1
    assert choice.log_probability[1] == 0
    assert (choice.context[1] == 0).all()


def test_reinforce_estimates_the_gradient_of_the_expectation():
    """E[r grad log p] = grad E[r] (Williams 1992), on one query with a reward for each key."""
    scores = torch.tensor([0.3, -0.7, 1.1], dtype=torch.float64)
    reward = torch.tensor([2.0, -1.0, 0.5], dtype=torch.float64)
    exact = torch.autograd.functional.jacobian(lambda e: (e.softmax(-1) * reward).sum(), scores)
    draws = 40000
    query = torch.ones(draws, 1, dtype=torch.float64)
    key = scores[:, None].clone().requires_grad_()
    choice = regard.choose(query, key, reward[:, None], hard().train())
    (choice.log_probability * choice.context[:, 0].detach()).mean().backward()
    standard_error = 2.0 / draws**0.5
    torch.testing.assert_close(key.grad[:, 0], exact, atol=4 * standard_error, rtol=0)


def test_straight_through_is_one_hot_forward_and_soft_backward():
    query, key, value = sides()
    query.requires_grad_()
    mechanism = Mechanism(DotScore(), StraightThrough(temperature=0.7)).train()
    weights = regard.weights(query, key, mechanism)
    assert torch.equal(
        weights.detach().sort(-1).values[:, :-1],
        torch.zeros(QUERIES, KEYS - 1, dtype=torch.float64),
    )
    torch.testing.assert_close(weights.sum(-1), torch.ones(QUERIES, dtype=torch.float64))
    regard.attend(query, key, value, mechanism).sum().backward()
    assert (query.grad != 0).any()


def test_straight_through_has_the_gradient_of_the_noisy_softmax():
    query, key, value = sides()
    mechanism = Mechanism(DotScore(), StraightThrough(temperature=0.7)).train()
    grads = []
    for run in (
        lambda q: regard.attend(q, key, value, mechanism),
        lambda q: ((q @ key.T + noise()) / 0.7).softmax(-1) @ value,
    ):
        torch.manual_seed(5)
        q = query.clone().requires_grad_()
        run(q).sum().backward()
        grads.append(q.grad)
    torch.testing.assert_close(*grads)


def noise():
    return -torch.empty(1, 1, QUERIES, KEYS, dtype=torch.float64).exponential_().log()[0, 0]


@pytest.mark.parametrize("normalizer", [Hard(), StraightThrough()])
def test_weights_are_one_hot_when_evaluating(normalizer):
    query, key, _ = sides()
    weights = regard.weights(query, key, Mechanism(DotScore(), normalizer).eval())
    assert torch.equal(
        weights, torch.nn.functional.one_hot((query @ key.T).argmax(-1), KEYS).double()
    )


@pytest.mark.parametrize("keys", [1, 63, 127, 128, 129, 191, 192, 300])
def test_the_best_key_is_the_first_of_equals_however_long_the_row(keys):
    scores = torch.randint(0, 9, (2, 3, 11, keys)).double()
    scores[0, 0, 0] = -torch.inf
    picked = best(scores)
    expected = scores.argmax(dim=-1)
    assert torch.equal(picked.index, expected.masked_fill(picked.blind, int(picked.index[0, 0, 0])))
    assert picked.blind.nonzero().tolist() == [[0, 0, 0]]
