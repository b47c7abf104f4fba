"""Building a model for the weights of a checkpoint, and not one that is far larger than they are.

A config.json that was damaged, or made to do harm, may ask for a million layers or for a matrix of
a terabyte. The weights beside it say how much there can be: while the model is built, each
parameter is counted and the size of each new tensor is checked, and the first one beyond what the
files hold ends the building with a FileError. Nothing has to be known about the class of model.
"""

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from regard.errors import FileError, RegardError, first_line
from regard.models.checkpoints.differences import AdaptedTensors
from regard.models.checkpoints.files import CheckpointTensors

__all__ = ["limit_parameters", "limit_sizes"]

# A model may have more parameters than its file has tensors: some checkpoints store queries, keys
# and values as one tensor, or a shared parameter once.
_PARAMETERS_PER_TENSOR = 8
_MORE_PARAMETERS = 4096
# Tables that are computed, such as those of sinusoidal positions, are in no file.
_NUMBERS_OF_A_TABLE = 1 << 26
_TABLES = {"zeros", "ones", "empty", "rand", "randn", "full"}


@contextmanager
def limit_parameters(folder: Path, tensors: int) -> Iterator[None]:
    """Raise a FileError if a model built in this block has far more parameters than `tensors`."""
    limit = _PARAMETERS_PER_TENSOR * tensors + _MORE_PARAMETERS
    thread, count = threading.get_ident(), 0

    def count_parameter(module: nn.Module, name: str, parameter: Any) -> None:
        """Count a parameter of this thread's model; another thread may build another model."""
        nonlocal count
        count += threading.get_ident() == thread
        if count > limit:
            raise FileError(
                f"{folder / 'config.json'} describes a model of more than {limit:,} parameters, "
                f"and the files beside it hold {tensors:,} tensors; are they of one checkpoint?"
            )

    hook = register_module_parameter_registration_hook(count_parameter)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def limit_sizes(folder: Path, weights: CheckpointTensors | AdaptedTensors) -> Iterator[None]:
    """Raise a FileError if a model built in this block cannot be the one of these weights.

    Besides the number of parameters, the size of each tensor is limited. An error of torch about
    settings that it cannot build becomes a FileError too.
    """
    numbers = sum(math.prod(weights.shape(name)) for name in weights)
    largest = _PARAMETERS_PER_TENSOR * numbers + _NUMBERS_OF_A_TABLE
    try:
        with limit_parameters(folder, len(weights)), _LimitedTensors(folder, largest):
            yield
    except RegardError:
        raise
    except (RuntimeError, ValueError, MemoryError, ArithmeticError) as error:
        raise FileError(
            f"no model can be built by {folder / 'config.json'} ({first_line(error)})"
        ) from error


class _LimitedTensors(TorchFunctionMode):
    """Refuses to create a tensor of more than `largest` numbers."""

    def __init__(self, folder: Path, largest: int) -> None:
        super().__init__()
        self.folder, self.largest = folder, largest

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        count = _count_numbers(function, args, kwargs)
        if count > self.largest:
            raise FileError(
                f"{self.folder / 'config.json'} describes a tensor of {count:,} numbers, far more "
                "than the files beside it hold; are they of one checkpoint?"
            )
        return function(*args, **kwargs)


def _count_numbers(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """How many numbers the tensor has that a function of torch is about to create; 0 for others."""
    name = getattr(function, "__name__", "")
    if function is torch.arange:
        return max((int(value) for value in args if isinstance(value, int)), default=0)
    if name not in _TABLES or not hasattr(torch, name):
        return 0
    sizes = kwargs.get("size", args[0] if args and not isinstance(args[0], int) else args)
    whole = isinstance(sizes, tuple | list) and all(isinstance(size, int) for size in sizes)
    return math.prod(sizes) if whole else 0
