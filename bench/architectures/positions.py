"""At which positions two runs differ: compared exactly, or by signatures that take little memory.

Positions are named by the size of their axis, because modules move axes around::

    changed_positions(x, y)      {11: {5}}     x and y differ at index 5 of their axis of size 11

A `Signature` has one number for each index of each axis, a weighted sum of all elements there. Two
tensors with the same signature are equal as far as this survey is concerned.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from bench.architectures.tensors import flatten_tensors

__all__ = [
    "SHORTEST",
    "Positions",
    "Signature",
    "add_positions",
    "changed_positions",
    "compare_signatures",
    "perturb_inputs",
    "sign",
]

Positions = dict[int, set[int]]  # the size of an axis -> its indices that changed

SHORTEST = 3  # an axis of two may be the batch
_LARGEST = 1 << 22  # numbers; signatures of larger tensors are not computed
_LARGEST_UNCERTAIN = 1 << 17  # numbers; pictures are larger than the states of a few tokens
_TOLERANCE = 1e-6
_FEWEST_TO_FIT = 6  # positions; a shift and a scale fit any two


@dataclass(frozen=True)
class Signature:
    """A number for each index of each axis of a tensor, and one for the whole tensor."""

    shape: tuple[int, ...]
    whole: float
    axes: tuple[Tensor | None, ...]


@lru_cache(maxsize=64)
def _weights(size: int) -> Tensor:
    """Numbers without a pattern, so that changes do not cancel."""
    return torch.rand(size, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5


def sign(tensor: Tensor) -> Signature:
    """The signature of a tensor."""
    shape = tuple(tensor.shape)
    tensor = tensor.detach()
    if not 0 < tensor.numel() <= _LARGEST:
        return Signature(shape, 0.0, (None,) * len(shape))
    numbers = (tensor.abs() if tensor.is_complex() else tensor).double()
    numbers = numbers.nan_to_num(0.0, 1.0, -1.0).clamp(-1e9, 1e9)
    numbers = numbers * _weights(tensor.numel()).reshape(shape)
    axes = tuple(
        numbers.movedim(axis, 0).reshape(size, -1).sum(1) if size >= SHORTEST else None
        for axis, size in enumerate(shape)
    )
    return Signature(shape, float(numbers.sum()), axes)


def compare_signatures(signature: Signature, former: Signature) -> Positions:
    """The positions at which two tensors of the same shape differ, by their signatures."""
    positions: Positions = {}
    if signature.shape != former.shape:
        return positions
    for size, sums, others in zip(signature.shape, signature.axes, former.axes, strict=True):
        if sums is not None and others is not None:
            limit = _TOLERANCE * others.abs().clamp(min=1.0)
            indices = ((sums - others).abs() > limit).nonzero().flatten().tolist()
            positions.setdefault(size, set()).update(indices)
    return positions


def changed_positions(tensor: Tensor, former: Tensor, before: Positions) -> Positions:
    """The positions at which two tensors differ apart from those that a change began with.

    A tensor may have two axes of one size, such as the queries and the keys of scores. There, an
    index counts as changed only if it differs outside the rows and columns of the first change.
    Nor does it count if the tensor compares two streams, or is a normalised one.
    """
    changed = _differs(tensor.detach(), former)
    positions: Positions = {}
    for axis, size in enumerate(tensor.shape):
        if size not in before:
            continue
        kept = changed
        for other, other_size in enumerate(tensor.shape):
            if other != axis and other_size == size:
                hidden = torch.zeros(size, dtype=torch.bool)
                hidden[list(before[size])] = True
                kept = kept & ~hidden.reshape([-1 if a == other else 1 for a in range(kept.dim())])
        if _is_comparison(kept, axis, before) or _is_rescaled(tensor, former, axis, before[size]):
            kept = torch.zeros_like(kept)
        rows = kept.movedim(axis, 0).reshape(size, -1).any(1)
        positions.setdefault(size, set()).update(rows.nonzero().flatten().tolist())
    return positions


def _is_comparison(changed: Tensor, axis: int, before: Positions) -> bool:
    """True if other positions changed only where they are compared with the changed one.

    Similarities of two streams have the positions of both as axes, perhaps padded: a change is one
    row and one column of them, and nothing was summed over positions.
    """
    size = changed.shape[axis]
    others = [index for index in range(size) if index not in before[size]]
    places = changed.index_select(axis, torch.tensor(others, dtype=torch.int64)).nonzero()
    first = torch.tensor(sorted({index for indices in before.values() for index in indices}))
    return any(
        bool(torch.isin(places[:, other], first).all())
        for other in range(changed.dim())
        if other != axis and changed.shape[other] >= SHORTEST and len(places)
    )


def _is_rescaled(tensor: Tensor, former: Tensor, axis: int, indices: set[int]) -> bool:
    """True if each feature of all other positions was shifted and scaled alike.

    That is a normalisation over positions, whatever operations compute the mean and the scale.
    Features are compared each by itself, so attention, which combines them, is not rescaling.
    """
    others = [index for index in range(tensor.shape[axis]) if index not in indices]
    if len(others) < _FEWEST_TO_FIT or not tensor.is_floating_point():
        return False
    now, then = (
        side.detach().double().movedim(axis, 0)[others].reshape(len(others), -1)
        for side in (tensor, former)
    )
    if not (now.isfinite().all() and then.isfinite().all()):
        return False
    now_centred, then_centred = (side - side.mean(0) for side in (now, then))
    spread = then_centred.square().sum(0)
    slope = (now_centred * then_centred).sum(0) / spread.clamp(min=1e-12)
    error = (now_centred - slope * then_centred).abs().amax(0)
    # weights that are nearly alike shift positions nearly alike, so the limit is that of rounding
    limit = 1e-4 * (now - then).abs().amax(0) + 2e-6 * then.abs().amax(0)
    return bool((error <= limit).all())


def _differs(tensor: Tensor, former: Tensor) -> Tensor:
    """True where two tensors differ by more than rounding."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor != former
    limit = _TOLERANCE * max(1.0, float(former.abs().nan_to_num(0.0, 1.0, 1.0).max()))
    changed = ~((tensor - former).abs() <= limit)
    return changed & (tensor != former) & ~(tensor.isnan() & former.isnan())


def perturb_inputs(
    inputs: Any, *, everywhere: bool = False, sizes: Collection[int] | None = None
) -> tuple[Positions, bool]:
    """Change one position of each floating-point input, or all positions, in place.

    Positions are axis 1 of (batch position feature), and axis 0 of (position feature) and of
    (position batch feature). The second result is False if the first input has four axes, such as
    (batch position stream feature) or (batch head position feature). Its positions are the one
    inner axis that has one of the `sizes`, which are those of positions elsewhere in the model; it
    is not changed if none or both have. Without `sizes` it is changed somewhere.
    """
    positions: Positions = {}
    certain = True
    for number, tensor in enumerate(_floating(inputs)):
        uncertain = number == 0 and tensor.dim() == 4 and tensor.numel() <= _LARGEST_UNCERTAIN
        if tensor.dim() not in (2, 3) and not uncertain:
            continue
        certain &= not uncertain
        axis = 1 if tensor.dim() > 2 and tensor.shape[1] >= SHORTEST else 0
        if uncertain and sizes is not None:
            axes = [inner for inner in (1, 2) if tensor.shape[inner] in sizes]
            several = sum(other.dim() == 4 for other in _floating(inputs)) > 1
            if len(axes) != 1 or several:  # keys and values would have to be changed too
                return {}, False
            axis = axes[0]
        size = tensor.shape[axis]
        if size < SHORTEST or not tensor.numel():
            continue
        part = tensor if everywhere else tensor.select(axis, size // 2)
        part.add_(torch.linspace(0.5, 1.5, part.numel()).reshape(part.shape).to(part))
        positions.setdefault(size, set()).add(size // 2)
    return positions, certain


def _floating(inputs: Any) -> list[Tensor]:
    """The floating-point inputs of a module."""
    return [tensor for tensor in flatten_tensors(inputs) if tensor.is_floating_point()]


def add_positions(positions: Positions, before: Positions, after: Positions) -> None:
    """Add the positions to which a change has spread."""
    for size, indices in after.items():
        positions.setdefault(size, set()).update(indices - before.get(size, set()))
