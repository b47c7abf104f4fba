"""Operations of torch.ops.aten that attend, called by a model directly."""

import pytest
import torch
from torch import nn

import regard
from regard.tracing import knock_out

aten = torch.ops.aten


class Attention(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend, self.sides = attend, nn.Linear(12, 36)

    def forward(self, x):
        q, k, v = self.sides(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        context = self.attend(q, k, v)
        context = context[0] if isinstance(context, tuple) else context
        return context.transpose(1, 2).flatten(2)


def with_mask(q, k, v):
    mask = torch.zeros(7, 7).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    return aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=mask)


def causal_flash(q, k, v):
    return torch._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)


def causal_math(q, k, v):
    return torch._scaled_dot_product_attention_math(q, k, v, None, 0.0, True)


def causal_overload(q, k, v):
    return aten.scaled_dot_product_attention.default(q, k, v, is_causal=True)


def causal_packet(q, k, v):
    return aten.scaled_dot_product_attention(q, k, v, None, 0.0, True)


FORMS = [with_mask, causal_flash, causal_math, causal_overload, causal_packet]


@pytest.mark.parametrize("attend", FORMS)
@torch.no_grad()
def test_operations_below_torchs_own_function_are_mapped(attend):
    model, x = Attention(attend), torch.randn(2, 7, 12)
    plain = model(x)
    with regard.watch(model) as seen:
        torch.testing.assert_close(model(x), plain)
    q, k, _ = model.sides(x[1]).unflatten(-1, (3, 3, 4)).permute(1, 2, 0, 3)
    scores = (q @ k.mT / 2).masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(seen[1]["Attention"].weights(), scores.softmax(-1))


@pytest.mark.parametrize("attend", [causal_flash, causal_overload])
@torch.no_grad()
def test_they_can_be_edited_like_any_attention(attend):
    model, x = Attention(attend), torch.randn(2, 7, 12)
    with regard.watch(model, edit=knock_out("*", heads=[2])):
        context = model(x).unflatten(-1, (3, 4))
    assert not context[:, :, 2].any()
    assert context[:, :, :2].any()


def test_gradients_flow_through_a_kernel_that_runs_itself():
    model, x = Attention(causal_flash), torch.randn(2, 7, 12, requires_grad=True)
    (plain,) = torch.autograd.grad(model(x).square().sum(), x)
    with regard.watch(model):
        (watched,) = torch.autograd.grad(model(x).square().sum(), x)
    assert torch.equal(watched, plain)
