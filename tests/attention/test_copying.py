import pytest
import torch

import reference
import regard
from regard.attention import AdditiveScore, Copying, Coverage, coverage_loss
from regard.attention.copying import copy_probabilities, copy_probability_of

BATCH, QUERIES, KEYS, DIM, VOCAB = 2, 5, 7, 11, 13


def weights_and_tokens():
    weights = torch.rand(BATCH, QUERIES, KEYS, dtype=torch.float64).softmax(-1)
    return weights, torch.randint(VOCAB, (BATCH, KEYS))


def test_the_places_of_a_token_add_their_weights():
    weights, tokens = weights_and_tokens()
    copied = copy_probabilities(weights, tokens, VOCAB)
    for b, i, j in torch.cartesian_prod(*map(torch.arange, weights.shape)).tolist():
        copied[b, i, tokens[b, j]] -= weights[b, i, j]
    torch.testing.assert_close(copied, torch.zeros_like(copied))


def test_copying_is_attention_whose_values_are_one_hot_tokens():
    mechanism = Copying(DIM, DIM, AdditiveScore(DIM, DIM)).double()
    query, key = torch.randn(2, BATCH, KEYS, DIM, dtype=torch.float64)
    tokens = torch.randint(VOCAB, (BATCH, KEYS))
    one_hot = torch.nn.functional.one_hot(tokens, VOCAB).double()
    expected = copy_probabilities(regard.weights(query, key, mechanism), tokens, VOCAB)
    torch.testing.assert_close(mechanism(query, key, one_hot), expected)


def test_the_probability_of_one_token_is_that_of_the_whole_distribution():
    weights, tokens = weights_and_tokens()
    labels = torch.randint(VOCAB, (BATCH, QUERIES))
    expected = copy_probabilities(weights, tokens, VOCAB).gather(-1, labels[..., None])[..., 0]
    torch.testing.assert_close(copy_probability_of(labels, weights, tokens), expected)


def test_the_first_query_covers_nothing_and_the_next_sees_its_weights():
    mechanism = Coverage(DIM, DIM).double()
    query, key = torch.randn(2, 1, 1, KEYS, DIM, dtype=torch.float64)
    whole = regard.weights(query, key, mechanism)
    plain = regard.weights(query, key, regard.attention.Mechanism(mechanism.score))
    torch.testing.assert_close(whole[..., 0, :], plain[..., 0, :])
    assert (whole[..., 1, :] - plain[..., 1, :]).abs().max() > 1e-3
    torch.testing.assert_close(whole, reference.weights(mechanism, query, key))


def test_the_coverage_loss_is_the_overlap_with_what_was_attended_to():
    weights, _ = weights_and_tokens()
    expected = torch.zeros(BATCH, QUERIES, dtype=torch.float64)
    for i in range(QUERIES):
        expected[:, i] = torch.minimum(weights[:, i], weights[:, :i].sum(dim=1)).sum(dim=-1)
    torch.testing.assert_close(coverage_loss(weights), expected)


@pytest.mark.parametrize("name", ["copy", "coverage"])
def test_a_model_that_takes_any_mechanism_says_which_one_copies(name):
    with pytest.raises(regard.errors.InputError, match="PointerGenerator"):
        regard.models.Recurrent(vocab=11, d_embed=4, hidden=6, attention=name)
    with pytest.raises(regard.errors.InputError, match="PointerGenerator"):
        regard.models.TransformerConfig(vocab=11, attention=name)
