"""Checks of the inputs and results of attention, and their common axes batch, head, length, dim."""

from typing import NamedTuple, NoReturn

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError, NotFiniteError, ShapeError

Queries = Float[Tensor, "*batch query query_dim"]
Keys = Float[Tensor, "*shared key key_dim"]  # may have fewer heads than the queries
Values = Float[Tensor, "*shared key dim"]

_FEW_KEYS = 64  # below, torch's kernel can hide a NaN of the query: see `check_finite`


class Inputs(NamedTuple):
    """Query, key and value with the axes batch, head, length, dim."""

    query: Float[Tensor, "batch head query query_dim"]
    key: Float[Tensor, "batch key_head key key_dim"]
    value: Float[Tensor, "batch key_head key dim"]


def admit(query: Queries, key: Keys, value: Values) -> Inputs:
    """The inputs with the axes batch, head, length, dim, after checking that they fit.

    Two axes are (length dim), three are (batch length dim).
    """
    axes = query.dim()
    fits = 2 <= axes <= 4 and key.dim() == value.dim() == axes
    fits = fits and query.dtype == key.dtype == value.dtype and query.is_floating_point()
    if not fits or 0 in (*query.shape, *key.shape, *value.shape):
        _refuse({"query": query, "key": key, "value": value})
    inputs = Inputs(_four_axes(query), _four_axes(key), _four_axes(value))
    _check_sizes(inputs)
    return inputs


def _refuse(sides: dict[str, Tensor]) -> NoReturn:
    """Raise the error that says which input does not fit, and why."""
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
    """A result with four axes reduced to `axes` of them, as the inputs had."""
    if axes == 4:
        return context
    return context[:, 0] if axes == 3 else context[0, 0]


def check_finite(result: Tensor, inputs: Inputs) -> None:
    """Raise a NotFiniteError that names the cause if the result contains NaN.

    The check is one sum, on CPU only, because elsewhere it would make the host wait for the device.
    With few keys the query is summed too: if the keys do not fill a vector register, torch's kernel
    takes a row of NaN scores for a row that sees no key, and returns zeros.
    """
    if torch.compiler.is_compiling() or result.device.type != "cpu":
        return
    try:
        total = result.detach().sum()
        if inputs.key.shape[2] < _FEW_KEYS:
            total = total + inputs.query.detach().sum()
        is_nan = bool(total.isnan())
    except RuntimeError:  # inside torch.func's transforms a tensor has no one value
        return
    if is_nan:
        _raise_not_finite(inputs)


def _raise_not_finite(inputs: Inputs) -> NoReturn:
    """Raise a NotFiniteError with the first input element that is not finite, if there is one."""
    for name, side in inputs._asdict().items():
        bad = ~side.detach().isfinite()
        if bad.any():
            first = bad.nonzero()[0].tolist()
            axes = zip(("batch", "head", "position", "dim"), first, strict=True)
            where = ", ".join(f"{axis} {index}" for axis, index in axes)
            raise NotFiniteError(
                f"{name} should hold finite numbers, got {side[tuple(first)].item()} at {where} "
                f"({int(bad.sum())} in all); look at what made it"
            )
    raise NotFiniteError(
        "query, key and value are finite, yet the result is not: a parameter is NaN, or a score "
        f"is too large for {inputs.query.dtype}; look at the parameters, or scale the inputs down"
    )


def _four_axes(side: Tensor) -> Tensor:
    """The tensor with axes of size one for a missing batch and head."""
    if side.dim() == 4:
        return side
    return side[:, None] if side.dim() == 3 else side[None, None]


def _check_sizes(inputs: Inputs) -> None:
    """Raise a ShapeError unless batch sizes, numbers of keys and heads fit together."""
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
    """The shapes by name, for an error message."""
    return ", ".join(f"{name} {tuple(side.shape)}" for name, side in sides.items())
