"""The logarithm of a map as r_i + c_j + sum_k a_ik b_jk: what dot-product attention computes.

Scores are products of queries and keys, so the logarithm of a head's weights has no more
independent rows than a head has dimensions. Stored as factors it costs (rows + columns) x rank
numbers instead of rows x columns, and each cell is off by a sum of many small roundings.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]

NOISE = 0.009  # the deviation of a logarithm that roundings may add up to
UNEXPLAINED = 0.003  # and that may be missing from the factors of a map of unknown rank
BLOCK = 40  # columns that a sketch grows by
PROBES = 4  # columns that only test what the others found
TOGETHER = 1 << 15  # logarithms that are computed at once
MOST = 136  # the largest rank that is looked for


@dataclass(frozen=True, eq=False)
class Scores:
    """Factors of the logarithm of one head's weights: log w_ij = rows_i + queries_i . keys_j."""

    queries: Floats
    keys: Floats
    rows: Floats


@dataclass(frozen=True, eq=False)
class Factors:
    """Roundings of the factors, in whole numbers of steps; only the product of two steps counts."""

    rows: Floats
    columns: Floats
    left: Integers
    right: Integers
    steps: Floats

    def logs(self) -> Tensor:
        """The logarithms that they stand for."""
        return torch.cat([each for _, each in self.blocks()])

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """The logarithms, some rows at a time: no more than a cache holds."""
        left = torch.from_numpy(self.left).float() * torch.from_numpy(self.steps)[:, None]
        right = torch.from_numpy(self.right).float()
        lines, columns = torch.from_numpy(self.rows)[:, None], torch.from_numpy(self.columns)
        high = max(1, TOGETHER // max(1, len(columns)))
        for start in range(0, max(1, len(lines)), high):
            rows = slice(start, start + high)
            yield rows, (lines[rows] + columns).addmm_(left[:, rows].T, right)


def factorise(scores: Scores) -> Factors:
    """The factors of scores that are known as queries and keys."""
    queries, keys, rows = (
        torch.from_numpy(each) for each in (scores.queries, scores.keys, scores.rows)
    )
    # the means are taken out into terms of columns and rows: the sum stays the same
    columns = keys @ queries.mean(0)
    queries = queries - queries.mean(0)
    rows = rows + queries @ keys.mean(0)
    keys = keys - keys.mean(0)
    basis = _orthonormal(queries)
    return _turned(rows, columns, basis, (basis.T @ queries) @ keys.T)


def find(logs: Tensor, most: int) -> Factors | None:
    """The factors of a whole map of logarithms if their rank is at most `most`, else None."""
    rows = logs.mean(1)
    columns = (logs - rows[:, None]).mean(0)
    rest = logs - rows[:, None] - columns
    basis = _basis(rest, most)
    if basis is None:
        return None
    return _turned(rows, columns, basis, basis.T @ rest)


def _turned(rows: Tensor, columns: Tensor, basis: Tensor, inner: Tensor) -> Factors:
    """The factors of basis @ inner, turned so that each is independent of the others."""
    squares, turn = torch.linalg.eigh(_products(inner.T))
    # rising: the largest come last
    sizes, turn = squares.flip(0).clamp(min=1e-12).sqrt().float(), turn.flip(1).float()
    return _rounded(rows, columns, basis @ turn, sizes, (turn.T @ inner) / sizes[:, None])


def _basis(rest: Tensor, most: int) -> Tensor | None:
    """Orthonormal columns that span those of a matrix, found by sketches (Halko et al. 2011)."""
    chance = torch.Generator().manual_seed(0)
    sketch = rest.new_empty(len(rest), 0)
    while sketch.shape[1] < min(most, *rest.shape):
        more = rest @ torch.randn(rest.shape[1], BLOCK + PROBES, generator=chance)
        probe, sketch = more[:, :PROBES], torch.cat([sketch, more[:, PROBES:]], dim=1)
        basis = _orthonormal(sketch)
        missing = probe - basis @ (basis.T @ probe)
        if float(missing.square().mean() / rest.shape[1]) < UNEXPLAINED**2:
            return basis
    return None


def _orthonormal(columns: Tensor) -> Tensor:
    """Orthonormal columns that span these; by their products, so that a small matrix is solved."""
    squares, turn = torch.linalg.eigh(_products(columns))
    kept = squares > squares[-1] * 1e-10
    found: Tensor = (columns.double() @ (turn[:, kept] / squares[kept].sqrt())).float()
    return found


def _products(columns: Tensor) -> Tensor:
    """The products of all columns, in double precision: they square what is small."""
    exact = columns.double()
    return exact.T @ exact


def _rounded(rows: Tensor, columns: Tensor, left: Tensor, sizes: Tensor, right: Tensor) -> Factors:
    """Steps that let each factor add the same noise; those too small to matter are left out."""
    height, width = len(rows), len(columns)
    kept = len(sizes)
    while True:  # fewer factors may each be coarser, which may leave out more
        share = NOISE * math.sqrt(6 / max(1, kept))
        needed = int((sizes[:kept] > 0.4 * share * math.sqrt(height * width)).sum())
        if needed == kept:
            break
        kept = needed
    sizes = sizes[:kept]
    # the step of one side is its share of noise by the mean size of the other side's factors
    left_steps, right_steps = share * math.sqrt(width) / sizes, share * math.sqrt(height) / sizes
    return Factors(
        rows.numpy(),
        columns.numpy(),
        (left[:, :kept] / left_steps).T.round().int().contiguous().numpy(),
        (right[:kept] / right_steps[:, None]).round().int().numpy(),
        (left_steps * right_steps * sizes).numpy(),
    )
