"""Models that are differentiated twice, forwards or by torch.func while they are watched."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.func import grad, jacrev, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

import regard

# torch.autograd.forward_ad loads functions that torch itself marks as deprecated
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
]


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


class Manual(nn.Module):
    """Two heads by hand."""

    def forward(self, x):
        heads = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return (torch.softmax(heads @ heads.mT, -1) @ heads).transpose(1, 2).flatten(2)


TRANSFORMS = {
    "vmap": lambda model, x: vmap(lambda one: model(one[None]))(x),
    "grad": lambda model, x: grad(lambda y: model(y).square().sum())(x),
    "jacrev": lambda model, x: jacrev(model)(x[:1, :2]),
    "vmap of grad": lambda model, x: vmap(grad(lambda one: model(one[None]).sum()))(x),
}


@pytest.mark.parametrize("kind", [Sdpa, Manual])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_transform_of_a_watched_model_gives_the_same_numbers_and_a_gap(kind, transform):
    model, x = kind(), torch.randn(3, 5, 8)
    plain = transform(model, x)
    with regard.watch(model) as seen:
        assert torch.equal(transform(model, x), plain)
    assert [(gap.site, "torch.func" in gap.reason) for gap in seen[0].gaps] == [
        (kind.__name__, True)
    ]
