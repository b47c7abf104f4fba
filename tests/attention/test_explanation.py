import pytest
import torch

import regard
from regard.attention import Mechanism, PredictiveLocal, Sparsemax
from regard.errors import InputError, NotFiniteError, ShapeError
from regard.masks import causal, lengths, tensor_bias


def sides(queries=3, keys=5, dim=7, value_dim=11):
    return [torch.randn(size) for size in ((queries, dim), (keys, dim), (keys, value_dim))]


@pytest.mark.parametrize(
    "mechanism",
    [Mechanism(), Mechanism(normalizer=Sparsemax(), mask=causal()), PredictiveLocal(7, radius=2)],
    ids=["soft", "sparse", "local-p"],
)
def test_the_steps_lead_to_the_context_of_attend(mechanism):
    query, key, value = sides()
    steps = regard.explain(query, key, value, mechanism, lengths([4]))
    torch.testing.assert_close(steps.weights, regard.weights(query, key, mechanism, lengths([4])))
    torch.testing.assert_close(
        steps.context, regard.attend(query, key, value, mechanism, lengths([4]))
    )
    torch.testing.assert_close(steps.weighted_values.sum(1), steps.context)
    assert steps.weighted_values.shape == (3, 5, 11)


def test_similarities_are_the_scores_before_the_mask():
    query, key, value = sides()
    steps = regard.explain(query, key, value, Mechanism(mask=causal()))
    torch.testing.assert_close(steps.similarities, query @ key.T / 7**0.5)
    assert torch.equal(steps.seen, torch.ones(3, 5).tril().bool())


def test_a_bias_is_part_of_the_similarity():
    query, key, value = sides()
    bias = torch.randn(3, 5)
    steps = regard.explain(query, key, value, Mechanism(bias=tensor_bias(bias)))
    torch.testing.assert_close(steps.similarities, query @ key.T / 7**0.5 + bias)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_small_example_gets_its_sentence():
    query, key, value = sides()
    with pytest.raises(ShapeError, match=r"explain expected one example.*got \(1, 3, 7\)"):
        regard.explain(query[None], key, value)
    with pytest.raises(InputError, match=r"explain is for small examples.*use attend and weights"):
        regard.explain(torch.zeros(3000, 2), torch.zeros(3000, 2), torch.zeros(3000, 2))
    with pytest.raises(ShapeError, match="lengths should have shape"):
        regard.explain(query, key, value, mask=lengths([1, 2]))
    with pytest.raises(NotFiniteError, match="query should hold finite"):
        regard.explain(query * torch.nan, key, value)
