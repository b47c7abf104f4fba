"""Nested outputs of models as flat lists of tensors, and how far two of them differ."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

__all__ = ["difference", "flatten_tensors", "random_tensor"]


def flatten_tensors(value: Any) -> list[Tensor]:
    """All tensors of nested mappings, sequences and caches, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, Mapping):
        value = list(value.values())
    elif hasattr(value, "to_tuple"):
        value = value.to_tuple()
    elif hasattr(value, "__dataclass_fields__"):
        value = list(vars(value).values())
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in flatten_tensors(part)]
    return []


def random_tensor(*shape: int) -> Tensor:
    """Random numbers, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def difference(first: Any, second: Any) -> float:
    """The largest relative difference of two outputs; infinite if their shapes differ.

    Differences are relative to the largest number of each tensor, or to one if all are smaller.
    """
    ours, theirs = flatten_tensors(first), flatten_tensors(second)
    if len(ours) != len(theirs):
        return float("inf")
    return max(map(_tensor_difference, ours, theirs), default=0.0)


def _tensor_difference(first: Tensor, second: Tensor) -> float:
    """The difference of two tensors."""
    if first.shape != second.shape:
        return float("inf")
    if not first.is_floating_point():
        return 0.0 if torch.equal(first, second) else 1.0
    first, second = first.double(), second.double()
    finite = torch.isfinite(first)
    if not torch.equal(first[~finite].nan_to_num(), second[~finite].nan_to_num()):
        return float("inf")
    first, second = first[finite], second[finite]
    if not first.numel():
        return 0.0
    return float((first - second).abs().max() / max(1.0, float(first.abs().max())))
