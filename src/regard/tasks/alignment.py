"""When each token was spoken: dynamic time warping over the cross-attention of a decoder.

Row k of the weights belongs to the step that reads token k and predicts token k + 1, column t to a
frame of the sound. Some heads of Whisper follow the sound from left to right:

    frames      0   1   2   3   4   5
    token 0   [.6  .3  .1   0   0   0]
    token 1   [ 0   0  .5  .4  .1   0]      the path 0 0 1 1 2 2 gives each frame a token:
    token 2   [ 0   0   0   0  .5  .5]      token 1 begins at frame 2, token 2 at frame 4

The weights are standardised over the tokens, smoothed by a median over the frames, and averaged
over the heads; the path is that with the largest sum (Sakoe and Chiba 1978). This is the procedure
of OpenAI's Whisper and of transformers, with whose word times a test compares.
"""

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError

__all__ = ["find_token_onsets", "median_filter", "warp"]


def find_token_onsets(
    weights: Float[Tensor, "head token frame"], filter_width: int = 7
) -> list[int]:
    """The frame in which the path through the weights enters each row; the first is 0.

    >>> import torch
    >>> from regard.tasks.alignment import find_token_onsets
    >>> find_token_onsets(torch.eye(3).repeat_interleave(4, dim=1)[None], filter_width=1)
    [0, 4, 8]
    """
    if 0 in weights.shape:
        raise InputError(f"no weights to align: their shape is {tuple(weights.shape)}")
    mean = weights.mean(dim=1, keepdim=True)
    deviation = weights.std(dim=1, keepdim=True, unbiased=False)
    # a frame that all tokens attend to alike tells nothing
    scores = torch.where(deviation > 0, (weights - mean) / deviation, torch.zeros_like(weights))
    matrix = median_filter(scores, filter_width).mean(dim=0)
    rows, frames = warp(-matrix.double().numpy())
    onsets: dict[int, int] = {}
    for row, frame in zip(rows.tolist(), frames.tolist(), strict=True):
        onsets.setdefault(row, frame)
    return [onsets[row] for row in range(weights.shape[1])]


def median_filter(
    values: Float[Tensor, "head token frame"], width: int
) -> Float[Tensor, "head token frame"]:
    """The median of `width` neighbouring frames, with the sound mirrored at both ends."""
    side = width // 2
    if width <= 1 or values.shape[-1] <= side:
        return values
    padded = torch.nn.functional.pad(values, (side, side, 0, 0), mode="reflect")
    return padded.unfold(-1, width, 1).sort().values[..., side]


def warp(cost: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows and columns of the cheapest path from the first cell to the last.

    A step goes to the next row, to the next column, or to both. The cells of one diagonal depend on
    the two before it alone, so that each diagonal is computed at once.
    """
    rows, columns = cost.shape
    total = np.full((rows + 1, columns + 1), np.inf)
    total[0, 0] = 0.0
    step = np.zeros((rows + 1, columns + 1), dtype=np.int8)  # 0: both, 1: next row, 2: next column
    for diagonal in range(2, rows + columns + 1):
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        both, down, right = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
        is_both = (both < down) & (both < right)
        is_down = ~is_both & (down < both) & (down < right)
        step[i, j] = np.where(is_both, 0, np.where(is_down, 1, 2))
        best = np.where(is_both, both, np.where(is_down, down, right))
        total[i, j] = cost[i - 1, j - 1] + best
    return _trace_back(step)


def _trace_back(step: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cells of the path that ends in the last cell, in order."""
    i, j = step.shape[0] - 1, step.shape[1] - 1
    path: list[tuple[int, int]] = []
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        move = 2 if i == 0 else 1 if j == 0 else step[i, j]
        i, j = i - (move != 2), j - (move != 1)
    rows, columns = zip(*reversed(path), strict=True)
    return np.array(rows), np.array(columns)
