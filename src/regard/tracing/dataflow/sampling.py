"""Deformable attention: values read at a few points of a picture, summed by weights of the points.

Each query says where to look (points) and how much each point counts (a softmax of a linear map of
the query). `grid_sample` reads the values at a point from up to four cells around it, in parts that
sum to one inside the picture. Weight times part, summed over the points that read a cell, is the
weight of the query on that cell: the map over all cells of all levels times the values of the cells
is the context, exactly (Zhu et al. 2021, equations 2 and 3).

    grid_sample(values (3, 8, 5, 7), points (3, 11, 4, 2))   4 points for each of 11 queries
    ... * weights (3, 1, 11, 4), summed over the last axis   the context
    map_of_cells                                             (3, 11, 35), a weight for each cell
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.tracing.readable import detach_untraced

MAX_NUMBERS = 1 << 26  # of one map; the encoder of a large picture has more
TOO_LARGE = (
    "it samples a picture at points (deformable attention), and its map of queries by cells would "
    f"have more than {MAX_NUMBERS:,} numbers; watch it on a smaller picture"
)
UNCLEAR = (
    "it samples a picture by grid_sample and weights the samples in a way that does not give its "
    "result again as weights of cells; register_tap its function to say what it does"
)


@dataclass(frozen=True, eq=False)
class Sampling:
    """One call of grid_sample: the cells of a level, and the points at which they were read."""

    site: str
    values: Float[Tensor, "row dim height width"]
    points: Float[Tensor, "row query point 2"]
    mode: str
    padding: str
    align_corners: bool
    stream: str | None = None

    def read_parts(self, weights: Float[Tensor, "row query point"]) -> Tensor:
        """The weight of each query on each cell (row query cell).

        grid_sample is linear in what it reads, so the gradient of the weighted sum by one picture
        for each query is that weight; autograd knows every mode of sampling and padding.
        """
        rows, queries, points, _ = self.points.shape
        height, width = self.values.shape[2:]
        # copies of tensors of inference mode may be differentiated outside of it
        with torch.inference_mode(False), torch.enable_grad():
            grid = self.points.reshape(rows * queries, 1, points, 2).clone()
            upstream = weights.reshape(rows * queries, 1, 1, points).to(grid).clone()
            cells = grid.new_zeros(rows * queries, 1, height, width).requires_grad_()
            samples = torch.nn.functional.grid_sample(
                cells, grid, self.mode, self.padding, self.align_corners
            )
            (parts,) = torch.autograd.grad(samples, cells, upstream)
        return parts.reshape(rows, queries, height * width)


def read_sampling(
    site: str, stream: str | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Sampling | None:
    """The sampling that a call of F.grid_sample did; None for samples of a volume."""
    names = ("input", "grid", "mode", "padding_mode", "align_corners")
    defaults = {"mode": "bilinear", "padding_mode": "zeros", "align_corners": None}
    call = defaults | dict(zip(names, args, strict=False)) | kwargs
    values, points = call["input"], call["grid"]
    if values.dim() != 4:
        return None
    return Sampling(
        site,
        detach_untraced(values),
        detach_untraced(points),
        call["mode"],
        call["padding_mode"],
        bool(call["align_corners"]),
        stream,
    )


def fits(samplings: Sequence[Sampling], weights: Tensor, weighted: Tensor) -> bool:
    """True if weights times samples, of this shape, may be those of all these samplings in order.

    Samples lie as (row, dim, query, point), weights the same without a dimension of values.
    """
    if not samplings or weighted.dim() != 4 or weights.dim() != 4 or weights.shape[1] != 1:
        return False
    rows, _, queries, points = weighted.shape
    same = all(sampling.points.shape[:2] == (rows, queries) for sampling in samplings)
    return same and points == sum(sampling.points.shape[2] for sampling in samplings)


def count_numbers(samplings: Sequence[Sampling]) -> int:
    """How many numbers the map of these samplings has."""
    cells = sum(sampling.values.shape[2] * sampling.values.shape[3] for sampling in samplings)
    rows, queries = samplings[0].points.shape[:2]
    return rows * queries * cells


def map_of_cells(samplings: Sequence[Sampling], weights: Tensor) -> Float[Tensor, "row query cell"]:
    """The weight of each query on each cell of all levels, one level after the other."""
    counts = [sampling.points.shape[2] for sampling in samplings]
    parts = weights.detach()[:, 0].split(counts, dim=-1)
    levels = zip(samplings, parts, strict=True)
    return torch.cat([sampling.read_parts(part) for sampling, part in levels], dim=-1)


def gives_context(samplings: Sequence[Sampling], cells: Tensor, context: Tensor) -> bool:
    """True if the map times the values of the cells is the context (row dim query)."""
    values = torch.cat([sampling.values.flatten(2) for sampling in samplings], dim=-1)
    again = values @ cells.mT.to(values)
    size = float(context.detach().abs().max()) if context.numel() else 0.0
    precision = torch.finfo(context.dtype).eps ** 0.5
    return torch.allclose(again, context.detach(), rtol=0, atol=precision * (size + 1e-6))
