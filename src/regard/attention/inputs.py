"""Checks the inputs of attention once and gives them the axes batch, head, length, dim."""

from typing import NamedTuple, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError, NotFiniteError, ShapeError

Queries = Float[Tensor, "*batch query query_dim"]
Keys = Float[Tensor, "*shared key key_dim"]  # heads may be fewer than those of the queries
Values = Float[Tensor, "*shared key dim"]


_FEW = 64  # keys


class Inputs(NamedTuple):
    """Query, key and value with the axes batch, head, length, dim."""

    query: Float[Tensor, "batch head query query_dim"]
    key: Float[Tensor, "batch key_head key key_dim"]
    value: Float[Tensor, "batch key_head key dim"]


def admit(query: Queries, key: Keys, value: Values) -> Inputs:
    """The inputs with four axes; two are (length dim), three (batch length dim)."""
    axes = query.dim()
    fits = 2 <= axes <= 4 and key.dim() == value.dim() == axes
    fits = fits and query.dtype == key.dtype == value.dtype and query.is_floating_point()
    if not fits or 0 in (*query.shape, *key.shape, *value.shape):
        _refuse({"query": query, "key": key, "value": value})
    inputs = Inputs(_four_axes(query), _four_axes(key), _four_axes(value))
    _check_sizes(inputs)
    return inputs


def _refuse(sides: dict[str, Tensor]) -> NoReturn:
    """Say which input does not fit, and why."""
    for name, side in sides.items():
        if not 2 <= side.dim() <= 4:
            raise ShapeError(
                f"{name} should have the axes (length dim), (batch length dim) or "
                f"(batch head length dim), got {side.dim()} of them: {tuple(side.shape)}"
            )
        if 0 in side.shape:
            raise InputError(
                f"{name} is empty, its shape is {tuple(side.shape)}; attention needs at least one "
                "query, one key and one number in each"
            )
    if len({side.dim() for side in sides.values()}) > 1:
        raise ShapeError(f"query, key and value should have as many axes, got {_shapes(sides)}")
    types = ", ".join(f"{name} {side.dtype}" for name, side in sides.items())
    raise InputError(f"query, key and value should share one floating-point type, got {types}")


def lower(context: Tensor, axes: int) -> Tensor:
    """A result with four axes as one that has those of the inputs."""
    if axes == 4:
        return context
    return context[:, 0] if axes == 3 else context[0, 0]


def check_finite(result: Tensor, inputs: Inputs) -> None:
    """Raise a NotFiniteError if the result is spoilt by NaN or infinity, and say where it began.

    A sum, on CPU only: elsewhere it would make the device wait. With few keys the query is summed
    too: torch's kernel takes a row of NaN for one that sees nothing if keys fill no vector.
    """
    if torch.compiler.is_compiling() or result.device.type != "cpu":
        return
    try:
        total = result.detach().sum()
        if inputs.key.shape[2] < _FEW:
            total = total + inputs.query.detach().sum()
        spoilt = bool(total.isnan())
    except RuntimeError:  # inside torch.func's transforms a tensor has no one value
        return
    if spoilt:
        _name_the_spoiler(inputs)


def _name_the_spoiler(inputs: Inputs) -> None:
    for name, side in inputs._asdict().items():
        bad = ~side.detach().isfinite()
        if bad.any():
            place = bad.nonzero()[0].tolist()
            axes = zip(("batch", "head", "position", "dim"), place, strict=True)
            where = ", ".join(f"{axis} {index}" for axis, index in axes)
            raise NotFiniteError(
                f"{name} should hold finite numbers, got {side[tuple(place)].item()} at {where} "
                f"({int(bad.sum())} in all); look at what made it"
            )
    raise NotFiniteError(
        "query, key and value are finite, yet the result is not: a parameter is NaN, or a score "
        f"is too large for {inputs.query.dtype}; look at the parameters, or scale the inputs down"
    )


def _four_axes(side: Tensor) -> Tensor:
    if side.dim() == 4:
        return side
    return side[:, None] if side.dim() == 3 else side[None, None]


def _check_sizes(inputs: Inputs) -> None:
    query, key, value = inputs
    sides = {"query": query, "key": key, "value": value}
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ShapeError(f"query, key and value should have one batch size, got {_shapes(sides)}")
    if key.shape[1:3] != value.shape[1:3]:
        raise ShapeError(f"there should be a value for each key, got {_shapes(sides)}")
    if query.shape[1] % key.shape[1]:
        raise ShapeError(
            f"the {query.shape[1]} heads of the query should be a multiple of the "
            f"{key.shape[1]} heads of the key"
        )


def _shapes(sides: dict[str, Tensor]) -> str:
    return ", ".join(f"{name} {tuple(side.shape)}" for name, side in sides.items())
