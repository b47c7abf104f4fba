"""Which rows of a batch are which rows of an earlier one, by their numbers."""

from collections.abc import Iterator

import torch
from jaxtyping import Bool
from torch import Tensor


def match_rows(one: Tensor, other: Tensor) -> Iterator[Bool[Tensor, "batch earlier"]]:
    """Which rows may be which: those that are equal, else those that are equal up to rounding.

    A cache that is compressed computes its keys anew at each step.
    """
    if one.shape[1:] == other.shape[1:]:
        yield equal_rows(one, other)
        yield near_rows(one, other)


def equal_rows(one: Tensor, other: Tensor) -> Bool[Tensor, "batch earlier"]:
    """Which rows of one tensor equal which rows of another, bit for bit."""
    bits = torch.cat([one, other]).flatten(1).contiguous().view(torch.uint8)
    number: Tensor = torch.unique(bits, dim=0, return_inverse=True)[1]
    return number[: len(one), None] == number[None, len(one) :]


def near_rows(one: Tensor, other: Tensor) -> Bool[Tensor, "batch earlier"]:
    """Which rows of one tensor equal which rows of another up to rounding."""
    exact = "donot_use_mm_for_euclid_dist"
    one, other, precision = one.flatten(1), other.flatten(1), torch.finfo(one.dtype).eps
    distance = torch.cdist(one.float(), other.float(), compute_mode=exact)
    near: Tensor = distance <= max(1e-4, 4 * precision) * one.float().norm(dim=1, keepdim=True)
    return near
