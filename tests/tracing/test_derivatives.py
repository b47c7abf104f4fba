"""Models that are differentiated twice, or forwards, while they are watched."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel

import regard

# torch.autograd.forward_ad loads functions that torch itself marks as deprecated
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Sdpa(nn.Module):
    """Two heads by scaled_dot_product_attention."""

    def forward(self, x):
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)


def penalise_gradient(model, x):
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(x).square().sum(), x, create_graph=True)
    slope.square().sum().backward()
    return x.grad


def hessian(model, x):
    return torch.autograd.functional.hessian(lambda y: model(y).square().sum(), x[:1, :2])


def tangent(model, x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        return forward_ad.unpack_dual(model(dual)).tangent


@pytest.mark.parametrize("differentiate", [penalise_gradient, hessian, tangent])
def test_a_watched_model_has_the_derivatives_of_an_unwatched_one(differentiate):
    torch.manual_seed(3)
    model, x = Sdpa(), torch.randn(3, 5, 8, dtype=torch.float64)
    with sdpa_kernel(SDPBackend.MATH):  # the others have no second derivative
        plain = differentiate(model, x)
        with regard.watch(model) as seen:
            torch.testing.assert_close(differentiate(model, x), plain)
    assert seen[0].maps
