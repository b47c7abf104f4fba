"""What exact means: the same types, the same values, and the same bits in every tensor."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import Tensor


def assert_same(one: Any, other: Any, where: str = "trace") -> None:
    assert type(one) is type(other), where
    if isinstance(one, Tensor):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert torch.equal(bits(one), bits(other)), where
    elif is_dataclass(one):
        for part in fields(one):
            assert_same(getattr(one, part.name), getattr(other, part.name), f"{where}.{part.name}")
    elif isinstance(one, Mapping):
        assert list(one) == list(other), where
        for name in one:
            assert_same(one[name], other[name], f"{where}[{name!r}]")
    elif isinstance(one, tuple):
        assert len(one) == len(other), where
        for place, (each, twin) in enumerate(zip(one, other, strict=True)):
            assert_same(each, twin, f"{where}[{place}]")
    else:
        assert one == other, where


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)
