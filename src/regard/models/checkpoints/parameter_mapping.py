"""Copying the tensors of a checkpoint to the parameters of a model, each exactly once."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.errors import FileError

__all__ = ["MappedTensor", "copy_parameters", "skip_initialisation"]

_NAMES_IN_A_MESSAGE = 3
_RANDOM_FUNCTIONS = {"uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_"}


class MappedTensor(NamedTuple):
    """A tensor of a checkpoint: its name in the file, its parameter, and how to read it."""

    file_name: str
    parameter_name: str
    read: Callable[[], Tensor]


def copy_parameters(
    model: nn.Module,
    mapped_tensors: Iterable[MappedTensor],
    folder: Path,
    name_in_file: Callable[[str], str] = str,
) -> None:
    """Copy each tensor to its parameter; a FileError if one is missing or left over.

    `name_in_file` gives the name that the file would have for a parameter, for the message.
    """
    targets = model.state_dict(keep_vars=True)  # a shared parameter is there under each name
    filled: dict[int, str] = {}  # by the identity of a parameter: the tensor that was copied to it
    extra = []
    for tensor in mapped_tensors:
        if tensor.parameter_name not in targets:
            extra.append(tensor.file_name)
            continue
        _copy(targets[tensor.parameter_name], tensor, filled, folder)
    missing = [name_in_file(name) for name, target in targets.items() if id(target) not in filled]
    for kind, names in (("lacks", missing), ("has besides", extra)):
        if names:
            raise FileError(
                f"{folder} {kind} {_list_names(names)}, unlike the model of its config.json; "
                "are config.json and the weights of one checkpoint?"
            )


@contextmanager
def skip_initialisation() -> Iterator[None]:
    """Build models without drawing random weights, which a checkpoint would overwrite."""
    with _NoRandomNumbers():
        yield


class _NoRandomNumbers(TorchFunctionMode):
    """Turns the functions of weight initialisation into no operation."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in _RANDOM_FUNCTIONS:
            return args[0] if args else kwargs["tensor"]
        return function(*args, **kwargs)


@torch.no_grad()
def _copy(target: Tensor, mapped: MappedTensor, filled: dict[int, str], folder: Path) -> None:
    tensor = mapped.read()
    while tensor.dim() > target.dim() and tensor.shape[0] == 1:
        tensor = tensor[0]
    if tensor.shape != target.shape:
        raise FileError(
            f"{mapped.file_name!r} in {folder} should have shape {tuple(target.shape)} by its "
            f"config.json, got {tuple(tensor.shape)}"
        )
    first = filled.get(id(target))
    if first is None:
        target.copy_(tensor)
        filled[id(target)] = mapped.file_name
    elif not torch.equal(target, tensor.to(target.dtype)):
        raise FileError(
            f"{first!r} and {mapped.file_name!r} in {folder} are one tensor by its config.json, "
            "yet they differ"
        )


def _list_names(names: list[str]) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:_NAMES_IN_A_MESSAGE])
    more = len(names) - _NAMES_IN_A_MESSAGE
    return f"{shown} and {more} more tensors" if more > 0 else shown
