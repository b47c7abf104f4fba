"""Tensors of a file into the parameters of a model: every one, of the right shape, once."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.errors import FileError

__all__ = ["Piece", "fill", "unfilled"]

_SHOWN = 3
_DRAWS = {"uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_"}


class Piece(NamedTuple):
    """A tensor of the file: its name there, the name here, and how to read it."""

    theirs: str
    ours: str
    read: Callable[[], Tensor]


def fill(
    model: nn.Module, pieces: Iterable[Piece], folder: Path, named: Callable[[str], str] = str
) -> None:
    """Copy each piece to its parameter; `named` tells what the file would call a parameter."""
    targets = model.state_dict(keep_vars=True)  # a shared one under each of its names
    filled: dict[int, str] = {}
    extra = []
    for piece in pieces:
        if piece.ours not in targets:
            extra.append(piece.theirs)
            continue
        _copy(targets[piece.ours], piece, filled, folder)
    missing = [named(name) for name, each in targets.items() if id(each) not in filled]
    for kind, names in (("lacks", missing), ("has besides", extra)):
        if names:
            raise FileError(
                f"{folder} {kind} {_some(names)}, unlike the model of its config.json; "
                "are config.json and the weights of one checkpoint?"
            )


@contextmanager
def unfilled() -> Iterator[None]:
    """Build a model without drawing its random numbers: a checkpoint overwrites them."""
    with _Undrawn():
        yield


class _Undrawn(TorchFunctionMode):
    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in _DRAWS:
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


@torch.no_grad()
def _copy(target: Tensor, piece: Piece, filled: dict[int, str], folder: Path) -> None:
    tensor = piece.read()
    while tensor.dim() > target.dim() and tensor.shape[0] == 1:
        tensor = tensor[0]
    if tensor.shape != target.shape:
        raise FileError(
            f"{piece.theirs!r} in {folder} should have shape {tuple(target.shape)} by its "
            f"config.json, got {tuple(tensor.shape)}"
        )
    first = filled.get(id(target))
    if first is None:
        target.copy_(tensor)
        filled[id(target)] = piece.theirs
    elif not torch.equal(target, tensor.to(target.dtype)):
        raise FileError(
            f"{first!r} and {piece.theirs!r} in {folder} are one tensor by its config.json, "
            "yet they differ"
        )


def _some(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more} more tensors" if more > 0 else shown
