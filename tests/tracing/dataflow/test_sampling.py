"""Deformable attention is mapped to the cells that it reads; the map gives its context again."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing.dataflow import sampling

BATCH, HEADS, QUERIES, POINTS, DIM = 2, 3, 11, 5, 4
LEVELS = ((5, 7), (3, 2))
CELLS = sum(height * width for height, width in LEVELS)


class Deformable(nn.Module):
    """Deformable attention over two levels; `joined` writes how the samples are put together."""

    def __init__(self, joined=torch.cat, power=1):
        super().__init__()
        self.joined, self.power = joined, power
        self.points = nn.Linear(12, HEADS * len(LEVELS) * POINTS * 2)
        self.weights = nn.Linear(12, HEADS * len(LEVELS) * POINTS)

    def forward(self, queries, values):
        lead = (BATCH, QUERIES, HEADS)
        points = self.points(queries).view(*lead, len(LEVELS), POINTS, 2)
        points = points.transpose(1, 2).flatten(0, 1)
        weights = self.weights(queries).view(*lead, -1).softmax(-1)
        weights = weights.transpose(1, 2).reshape(BATCH * HEADS, 1, QUERIES, -1)
        rows = values.transpose(1, 2).reshape(BATCH * HEADS, DIM, CELLS)
        split = rows.split([height * width for height, width in LEVELS], dim=-1)
        samples = [
            F.grid_sample(level.unflatten(-1, size), points[:, :, place], align_corners=False)
            for place, (level, size) in enumerate(zip(split, LEVELS, strict=True))
        ]
        joined = torch.stack(samples, -2).flatten(-2) if self.joined is torch.stack else None
        joined = torch.cat(samples, -1) if joined is None else joined
        return ((joined**self.power) * weights).sum(-1).view(BATCH, HEADS, DIM, QUERIES)


def inputs():
    torch.manual_seed(0)
    return torch.randn(BATCH, QUERIES, 12), torch.randn(BATCH, CELLS, HEADS * DIM)


@pytest.mark.parametrize("joined", [torch.cat, torch.stack])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_map_times_the_values_is_the_context(joined, mode):
    model, (queries, values) = Deformable(joined), inputs()
    with mode(), regard.watch(model) as seen:
        context = model(queries, values)
    for example, trace in enumerate(seen):
        (cells,) = trace.maps
        assert (cells.kind, cells.shape) == ("cross", (HEADS, QUERIES, CELLS))
        own = values[example].view(CELLS, HEADS, DIM).transpose(0, 1)
        torch.testing.assert_close((cells.weights() @ own).mT, context[example].detach())


def test_the_output_of_deformable_attention_is_unchanged():
    model, read = Deformable(), inputs()
    alone = model(*read)
    with regard.watch(model):
        assert torch.equal(model(*read), alone)


def test_samples_that_are_changed_before_they_are_weighted_are_a_gap():
    with regard.watch(model := Deformable(power=2)) as seen:
        model(*inputs())
    assert [gap.reason for gap in seen[0].gaps] == [sampling.UNCLEAR]
    assert "does not give its result again" in sampling.UNCLEAR


def test_a_map_of_too_many_cells_is_a_gap(monkeypatch):
    monkeypatch.setattr("regard.tracing.dataflow.sampled_values.MAX_NUMBERS", 100)
    with regard.watch(model := Deformable()) as seen:
        model(*inputs())
    assert [gap.reason for gap in seen[0].gaps] == [sampling.TOO_LARGE]
    assert "watch it on a smaller picture" in sampling.TOO_LARGE
