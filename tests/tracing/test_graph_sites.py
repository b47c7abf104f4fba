"""Models that torch.export or torch.fx have written out as one function."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing.graph_sites import find_path_in_graph


class Attention(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.sides, self.fused = nn.Linear(12, 36), fused

    def forward(self, x):
        q, k, v = self.sides(x).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        if self.fused:
            context = F.scaled_dot_product_attention(q, k, v)
        else:
            context = torch.softmax(q @ k.mT / 2, -1) @ v
        return x + context.transpose(1, 2).flatten(2)


class Model(nn.Module):
    def __init__(self, fused):
        super().__init__()
        self.embed = nn.Embedding(23, 12)
        self.layers = nn.ModuleList(Attention(fused) for _ in range(2))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


def export(model, ids):
    return torch.export.export(model, (ids,)).module()


def export_decomposed(model, ids):
    return torch.export.export(model, (ids,)).run_decompositions().module()


def trace(model, ids):
    return torch.fx.symbolic_trace(model)


@pytest.mark.parametrize("write_out", [export, export_decomposed, trace])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.filterwarnings("ignore")  # of torch.export's own
@torch.no_grad()
def test_a_model_that_is_one_graph_has_the_sites_and_maps_of_the_model_it_was(write_out, fused):
    torch.manual_seed(3)
    model, ids = Model(fused).eval(), torch.randint(23, (2, 7))
    graph = write_out(model, ids)
    plain = graph(ids)
    with regard.watch(model) as expected:
        model(ids)
    with regard.watch(graph, beside=True) as seen:
        assert torch.equal(graph(ids), plain)
    assert [one.site for one in seen[1].maps] == ["layers.0", "layers.1"]
    for one, other in zip(seen[1].maps, expected[1].maps, strict=True):
        torch.testing.assert_close(one.weights(), other.weights())
        assert one.kind == other.kind == "encoder"


@torch.no_grad()
def test_a_graph_inside_a_model_has_its_own_path_before_theirs():
    model = nn.Sequential(nn.Embedding(23, 12), torch.fx.symbolic_trace(Attention(True)))
    with regard.watch(model) as seen:
        model(torch.randint(23, (2, 7)))
    assert seen[0].maps[0].site == "1"


def test_a_module_that_is_no_graph_has_no_path_in_one():
    assert find_path_in_graph(nn.Linear(2, 3)) is None
