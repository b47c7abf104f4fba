import pytest
import torch
import torch.nn.functional as F

from regard.models.recurrent.unrolled_gradients import UnrolledLinear

STEPS = 5


def run(multiply, weight, bias, first, added):
    """A small recurrence through the product, and the gradients of all that it reads."""
    state, total = first, 0.0
    for step in range(STEPS):
        state = torch.tanh(multiply(state, added[step])) @ torch.eye(7)[:, :3]
        total = total + (state**2).sum()
    wanted = [each for each in (weight, bias, first, added) if each is not None]
    return total, torch.autograd.grad(total, wanted)


@pytest.mark.parametrize("biased", [True, False])
def test_gradients_are_those_of_a_product_at_each_step(biased):
    weight, first = torch.randn(7, 3, requires_grad=True), torch.randn(11, 3, requires_grad=True)
    bias = torch.randn(7, requires_grad=True) if biased else None
    added = torch.randn(STEPS, 11, 7, requires_grad=True)
    plain = run(lambda x, more: more + F.linear(x, weight, bias), weight, bias, first, added)
    found = run(UnrolledLinear(weight, bias), weight, bias, first, added)
    torch.testing.assert_close(found, plain)


def test_the_graph_may_be_gone_back_through_twice():
    weight, x = torch.randn(7, 3, requires_grad=True), torch.randn(11, 3)
    product = UnrolledLinear(weight)
    total = sum(product(x + step).sum() for step in range(STEPS))
    once = torch.autograd.grad(total, weight, retain_graph=True)
    assert torch.equal(once[0], torch.autograd.grad(total, weight)[0])


def test_without_gradients_it_is_a_plain_product():
    weight, x = torch.randn(7, 3, requires_grad=True), torch.randn(11, 3)
    with torch.no_grad():
        product = UnrolledLinear(weight)
        assert product.anchor is None
        assert torch.equal(product(x), F.linear(x, weight))
