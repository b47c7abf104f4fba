import pytest
import torch
from torch import nn

from regard.attention import QuantisedLinear
from regard.attention.projection import Product, QuantisedProduct, projection


@pytest.fixture
def pair():
    torch.manual_seed(0)
    linear = nn.Linear(67, 31)
    return linear, QuantisedLinear.of(linear)


def test_every_weight_is_within_half_a_step_of_its_row(pair):
    linear, light = pair
    steps = linear.weight.abs().amax(dim=1, keepdim=True) / 127
    assert ((light.weight - linear.weight).abs() <= 0.501 * steps).all()


def test_products_are_near_those_of_the_layer(pair):
    linear, light = pair
    x = torch.randn(3, 5, 67)
    wanted = linear(x)
    assert (light(x) - wanted).norm() < 0.015 * wanted.norm()


def test_a_row_of_zeros_stays_zero():
    linear = nn.Linear(7, 3, bias=False)
    nn.init.zeros_(linear.weight)
    assert torch.equal(QuantisedLinear.of(linear)(torch.randn(2, 7)), torch.zeros(2, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_vectors_of_another_precision_keep_it(pair, dtype):
    _, light = pair
    x = torch.randn(5, 67, dtype=dtype)
    torch.testing.assert_close(
        light(x).double(), x.double() @ light.weight.double().t() + light.bias, atol=0.05, rtol=0.05
    )
    assert light(x).dtype == dtype


def test_gradients_pass_through_to_the_vectors(pair):
    _, light = pair
    x = torch.randn(5, 67, requires_grad=True)
    light(x).sum().backward()
    torch.testing.assert_close(x.grad[0], light.weight.sum(dim=0))


def test_layers_one_under_the_other_are_one_product():
    layers = [QuantisedLinear.of(nn.Linear(13, outs)) for outs in (5, 7, 11)]
    x = torch.randn(3, 13)
    product = projection(*layers)
    assert isinstance(product, QuantisedProduct)
    assert product.sizes == (23, 13)
    torch.testing.assert_close(product(x), torch.cat([layer(x) for layer in layers], dim=1))


def test_what_was_laid_together_follows_new_numbers():
    first, second = (QuantisedLinear.of(nn.Linear(13, 5)) for _ in range(2))
    before = projection(first, second)
    second.quantise(torch.ones(5, 13))
    after = projection(first, second)
    assert not torch.equal(before.weight, after.weight)


def test_layers_of_two_kinds_are_no_one_product():
    linear = nn.Linear(13, 5)
    assert isinstance(projection(linear), Product)
    assert projection(linear, QuantisedLinear.of(linear)) is None
