"""Ways to tell a model where a token stands; position p of the first row is `offset`."""

import math
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
        _check(self, x, offset, *self.table.shape)
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
        _check(self, x, offset, *self.table.shape)
        return x + self.table[offset : offset + x.shape[-2]]


class Rotary(nn.Module):
    """Turns pairs of dimensions by an angle that grows with the position (Su et al. 2021, eq. 34).

    The score of a turned query and key depends on their distance alone. A pair is two neighbours,
    as in the paper, or one dimension of each half, as in Llama's checkpoints.
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
        self._turns: tuple[Tensor, Tensor] | None = None

    def forward(
        self, x: Float[Tensor, "*batch length dim"], offset: int = 0
    ) -> Float[Tensor, "*batch length dim"]:
        """The vectors turned by their positions."""
        if x.shape[-1] != 2 * len(self.frequency):
            raise ShapeError(
                f"this Rotary turns vectors of width {2 * len(self.frequency)}, got {x.shape[-1]}; "
                "it wants the width of one head"
            )
        cos, sin = self._known(offset, offset + x.shape[-2], x)
        axis = -1 if self.pairs == "neighbours" else -2
        shape = (-1, 2) if self.pairs == "neighbours" else (2, -1)
        first, second = x.unflatten(-1, shape).unbind(axis)
        turned = (first * cos - second * sin, first * sin + second * cos)
        return torch.stack(turned, dim=axis).flatten(-2)

    def _known(self, start: int, stop: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines of some positions; they are remembered, for decoding asks for each."""
        if start < 0 or torch.compiler.is_compiling():
            return self._turned(range(start, stop), like)
        known = self._turns
        if known is None or len(known[0]) < stop or not _alike(known[0], like):
            with torch.inference_mode(False):  # gradients may pass through them later
                self._turns = known = self._turned(range(2 * stop), like)
        return known[0][start:stop], known[1][start:stop]

    def _turned(self, positions: range, like: Tensor) -> tuple[Tensor, Tensor]:
        position = torch.arange(positions.start, positions.stop, device=like.device)
        angle = position[:, None] * self.frequency
        return angle.cos().to(like.dtype), angle.sin().to(like.dtype)


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
        """The bias as it is now."""
        return t5_buckets(self.table, both_ways=self.both_ways, far=self.far)


def _sinusoids(dim: int, length: int) -> Float[Tensor, "length dim"]:
    if dim < 1 or length < 1:
        raise InputError(
            f"PositionalEncoding expected dim and max_len above 0, got {dim}, {length}"
        )
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    table = torch.stack([torch.sin(position * frequency), torch.cos(position * frequency)], dim=-1)
    return table.flatten(1)[:, :dim].float()


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and one.device == other.device


def _check(module: nn.Module, x: Tensor, offset: int, length: int, dim: int) -> None:
    name = type(module).__name__
    if x.shape[-1] != dim:
        raise ShapeError(f"this {name} has width {dim}, got vectors of width {x.shape[-1]}")
    if offset < 0 or offset + x.shape[-2] > length:
        raise InputError(
            f"this {name} knows positions 0 to {length - 1}, got {offset} to "
            f"{offset + x.shape[-2] - 1}; build it with a larger max_len"
        )
