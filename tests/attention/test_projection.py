import pytest
import torch
from torch import nn

from regard.attention.projection import projection


@pytest.mark.parametrize("rows", [1, 5, 16, 17, 101])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_that_of_its_layer(rows, bias):
    layer, x = nn.Linear(13, 29, bias=bias), torch.randn(rows, 13)
    torch.testing.assert_close(projection(layer)(x), layer(x).detach())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_are_multiplied_too(dtype):
    layer, x = nn.Linear(13, 29).to(dtype), torch.randn(3, 13, dtype=dtype)
    product = projection(layer)
    assert not product.native
    torch.testing.assert_close(product(x), layer(x).detach())


def test_no_gradient_goes_through_it():
    layer = nn.Linear(3, 5)
    assert not projection(layer)(torch.randn(2, 3)).requires_grad
