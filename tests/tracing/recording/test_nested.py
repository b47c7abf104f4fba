"""Attention on nested tensors, whose examples have different lengths."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing import knock_out

LENGTHS = (7, 3, 5)
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


class Model(nn.Module):
    def __init__(self, layout):
        super().__init__()
        self.embed, self.sides = nn.Embedding(23, 8), nn.ModuleList(nn.Linear(8, 8) for _ in "qkv")
        self.layout = layout

    def forward(self, *ids):
        parts = [self.embed(one) for one in ids]
        heads = [self.split_heads(side, parts) for side in self.sides]
        return F.scaled_dot_product_attention(*heads).transpose(1, 2)

    def split_heads(self, side, parts):
        split = [side(part).unflatten(-1, (2, 4)) for part in parts]
        nested = torch.nested.as_nested_tensor(split, layout=self.layout).transpose(1, 2)
        return nested.contiguous() if self.layout is torch.strided else nested


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
@torch.no_grad()
def test_each_example_of_a_nested_tensor_has_its_own_map(layout):
    model, ids = Model(layout).eval(), [torch.randint(23, (length,)) for length in LENGTHS]
    plain = model(*ids)
    with regard.watch(model) as seen:
        output = model(*ids)
    for one, other in zip(output.unbind(), plain.unbind(), strict=True):
        assert torch.equal(one, other)
    for trace, one in zip(seen, ids, strict=True):
        q, k = (side(model.embed(one)).unflatten(-1, (2, 4)) for side in model.sides[:2])
        weights = torch.einsum("qhd,khd->hqk", q / 2, k).softmax(-1)
        torch.testing.assert_close(trace["Model"].weights(), weights)


@torch.no_grad()
def test_heads_of_nested_tensors_can_be_edited():
    model, ids = Model(torch.jagged).eval(), [torch.randint(23, (n,)) for n in LENGTHS]
    with regard.watch(model, edit=knock_out("*", heads=[1])):
        output = model(*ids)
    for one, length in zip(output.unbind(), LENGTHS, strict=True):
        assert one.shape == (length, 2, 4)
        assert one[:, 0].any()
        assert not one[:, 1].any()
