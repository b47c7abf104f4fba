"""Position encodings: absolute ones added to the vectors, rotary and relative ones for scores.

Where a call has an `offset`, its first vector stands at that position.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError, ShapeError
from regard.masks import Bias, t5_buckets


class PositionalEncoding(nn.Module):
    """Adds sines and cosines of the position (Vaswani et al. 2017, section 3.5), then dropout.

    PE(p, 2i) = sin(p / 10000^(2i/dim)) and PE(p, 2i+1) = cos(p / 10000^(2i/dim)).
    """

    table: Tensor

    def __init__(self, dim: int, dropout: float = 0.1, max_len: int = 5000) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", _sinusoids(dim, max_len), persistent=False)

    def forward(
        self, x: Float[Tensor, "*batch length dim"], offset: int = 0
    ) -> Float[Tensor, "*batch length dim"]:
        """The vectors with their positions added."""
        _check_positions(self, x, offset, *self.table.shape)
        encoded: Tensor = self.dropout(x + self.table[offset : offset + x.shape[-2]].to(x.dtype))
        return encoded


class LearnedPositions(nn.Module):
    """Adds a learned vector for each position (Gehring et al. 2017, section 3.1)."""

    def __init__(self, dim: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, dim))
        nn.init.normal_(self.table, std=0.02)

    def forward(
        self, x: Float[Tensor, "*batch length dim"], offset: int = 0
    ) -> Float[Tensor, "*batch length dim"]:
        """The vectors with their positions added."""
        _check_positions(self, x, offset, *self.table.shape)
        return x + self.table[offset : offset + x.shape[-2]]


class Rotary(nn.Module):
    """Rotates pairs of dimensions by an angle that grows with position (Su et al. 2021, eq. 34).

    The dot product of a rotated query and key then depends on their distance alone. `pairs` says
    which two dimensions are rotated together: "neighbours" (2i, 2i + 1), as in the paper, or
    "halves" (i, i + dim / 2), as in Llama's checkpoints.
    """

    frequency: Tensor

    def __init__(
        self, dim: int, base: float = 10000.0, pairs: Literal["neighbours", "halves"] = "neighbours"
    ) -> None:
        super().__init__()
        if dim < 2 or dim % 2:
            raise InputError(f"Rotary turns pairs of dimensions: expected an even dim, got {dim}")
        if pairs not in ("neighbours", "halves"):
            raise InputError(f"Rotary expected pairs 'neighbours' or 'halves', got {pairs!r}")
        self.pairs = pairs
        frequency = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        self.register_buffer("frequency", frequency.float(), persistent=False)
        self._cached: tuple[Tensor, Tensor] | None = None

    def forward(
        self, x: Float[Tensor, "*batch length dim"], offset: int = 0
    ) -> Float[Tensor, "*batch length dim"]:
        """The vectors rotated by their positions."""
        if x.shape[-1] != 2 * len(self.frequency):
            raise ShapeError(
                f"this Rotary turns vectors of width {2 * len(self.frequency)}, got {x.shape[-1]}; "
                "it wants the width of one head"
            )
        cos, sin = self._cached_angles(offset, offset + x.shape[-2], x)
        axis = -1 if self.pairs == "neighbours" else -2
        shape = (-1, 2) if self.pairs == "neighbours" else (2, -1)
        first, second = x.unflatten(-1, shape).unbind(axis)
        rotated = (first * cos - second * sin, first * sin + second * cos)
        return torch.stack(rotated, dim=axis).flatten(-2)

    def table(self, start: int, stop: int, like: Tensor) -> "RotaryTable":
        """The cosines and sines of positions start .. stop - 1, repeated to the width of a head."""
        cos, sin = (side[:, None] for side in self._angles(range(start, stop), like))
        if self.pairs == "halves":
            return RotaryTable(torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1), True)
        pairs = (torch.stack([cos, cos], -1), torch.stack([-sin, sin], -1))
        return RotaryTable(pairs[0].flatten(-2), pairs[1].flatten(-2), False)

    def _cached_angles(self, start: int, stop: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of some positions, from a table that doubles when it is too short."""
        if start < 0 or torch.compiler.is_compiling():
            return self._angles(range(start, stop), like)
        cached = self._cached
        if cached is None or len(cached[0]) < stop or not _same_kind(cached[0], like):
            with torch.inference_mode(False):  # gradients may pass through them later
                self._cached = cached = self._angles(range(2 * stop), like)
        return cached[0][start:stop], cached[1][start:stop]

    def _angles(self, positions: range, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each position and pair, in the dtype and on the device of `like`."""
        position = torch.arange(positions.start, positions.stop, device=like.device)
        angle = position[:, None] * self.frequency
        return angle.cos().to(like.dtype), angle.sin().to(like.dtype)


@dataclass(frozen=True)
class RotaryTable:
    """The rotation of some positions as x cos + x' sin, where x' has each pair swapped.

    The native decoder takes `cos` and `sin` in this form; `rotate` is the same in torch.
    """

    cos: Float[Tensor, "position 1 dim"]
    sin: Float[Tensor, "position 1 dim"]
    halves: bool

    def rotate(
        self, x: Float[Tensor, "row position head dim"]
    ) -> Float[Tensor, "row position head dim"]:
        """The vectors rotated by their positions, the head axis after that of positions."""
        if self.halves:
            exchanged = x.roll(x.shape[3] // 2, 3)
        else:
            exchanged = x.unflatten(3, (-1, 2)).flip(4).flatten(3)
        return torch.addcmul(x * self.cos, exchanged, self.sin)


class RelativePositions(nn.Module):
    """A learned bias for each bucket of distance and each head (Raffel et al. 2020, section 2.1).

    Give it to a Mechanism as its bias.
    """

    def __init__(
        self, heads: int, buckets: int = 32, *, both_ways: bool = True, far: int = 128
    ) -> None:
        super().__init__()
        if heads < 1:
            raise InputError(f"RelativePositions expected at least one head, got {heads}")
        self.both_ways, self.far = both_ways, far
        self.table = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.table, std=1.0 / math.sqrt(buckets))

    def forward(self) -> Bias:
        """The bias with the current values of the table."""
        return t5_buckets(self.table, both_ways=self.both_ways, far=self.far)


def _sinusoids(dim: int, length: int) -> Float[Tensor, "length dim"]:
    """The table PE(p, i) of sines (even i) and cosines (odd i)."""
    if dim < 1 or length < 1:
        raise InputError(
            f"PositionalEncoding expected dim and max_len above 0, got {dim}, {length}"
        )
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    table = torch.stack([torch.sin(position * frequency), torch.cos(position * frequency)], dim=-1)
    return table.flatten(1)[:, :dim].float()


def _same_kind(one: Tensor, other: Tensor) -> bool:
    """True if both have the same dtype and device."""
    return one.dtype == other.dtype and one.device == other.device


def _check_positions(module: nn.Module, x: Tensor, offset: int, length: int, dim: int) -> None:
    """Raise an error unless a table of `length` x `dim` has a row for each vector of x."""
    name = type(module).__name__
    if x.shape[-1] != dim:
        raise ShapeError(f"this {name} has width {dim}, got vectors of width {x.shape[-1]}")
    if offset < 0 or offset + x.shape[-2] > length:
        raise InputError(
            f"this {name} knows positions 0 to {length - 1}, got {offset} to "
            f"{offset + x.shape[-2] - 1}; build it with a larger max_len"
        )
