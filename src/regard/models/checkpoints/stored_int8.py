"""Matrices stored as 8-bit integers with a scale for each row, whatever module they belong to.

A float32 matrix `w` of a file becomes two tensors, a quarter of its size together:

    encoder.rnn.weight_ih_l0          int8     (300, 128)   round(w / scale), from -127 to 127
    encoder.rnn.weight_ih_l0:scale    float32  (300,)       largest absolute value of the row / 127

`CheckpointTensors` multiplies them again when it reads the matrix, so that a loaded model computes
in floating point and needs nothing of this. It holds for embeddings, recurrent networks and
convolutions alike. (`Transformer.to_int8` is for computing in 8 bits.)
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.errors import FileError

__all__ = ["SCALE_SUFFIX", "restore_matrix", "store_as_int8"]

SCALE_SUFFIX = ":scale"
_LARGEST = 127
_FEWEST = 4096  # numbers of a matrix that is worth it
_SHORTEST_ROW = 8  # numbers; a scale for fewer would take up what is saved


def store_as_int8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with every large matrix as integers, and its scales beside it.

    >>> import torch
    >>> from regard.models.checkpoints.stored_int8 import store_as_int8
    >>> stored = store_as_int8({"words.weight": torch.randn(512, 64), "bias": torch.zeros(3)})
    >>> {name: str(tensor.dtype) for name, tensor in stored.items()}
    {'words.weight': 'torch.int8', 'words.weight:scale': 'torch.float32', 'bias': 'torch.float32'}
    """
    stored: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not _is_large_matrix(tensor):
            stored[name] = tensor
            continue
        rows = tensor.float().flatten(1)
        scale = rows.abs().amax(1) / _LARGEST
        safe = scale.masked_fill(scale == 0, 1)  # a row of zeros, such as that of padding
        stored[name] = (rows / safe[:, None]).round().to(torch.int8).reshape(tensor.shape)
        stored[name + SCALE_SUFFIX] = scale
    return stored


def restore_matrix(values: Tensor, scale: Tensor, name: str) -> Tensor:
    """The matrix of some integers and the scales of its rows; a FileError if they do not fit."""
    if values.dim() < 2 or values.dtype != torch.int8 or scale.shape != values.shape[:1]:
        raise FileError(
            f"{name!r} should be a matrix of int8 with a scale for each row, got "
            f"{values.dtype} {tuple(values.shape)} and scales {tuple(scale.shape)}"
        )
    return values.to(scale.dtype) * scale.reshape(-1, *[1] * (values.dim() - 1))


def _is_large_matrix(tensor: Tensor) -> bool:
    """True if a tensor is worth storing in 8 bits."""
    if not tensor.is_floating_point() or tensor.dim() < 2 or tensor.numel() < _FEWEST:
        return False
    return tensor[0].numel() >= _SHORTEST_ROW
