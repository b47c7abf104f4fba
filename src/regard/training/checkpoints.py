"""Training checkpoints: all that is needed to resume, and the average of several.

A checkpoint is a folder such as step-00001000 with model.safetensors, optimizer.safetensors and
state.json. It is written under another name and renamed when all of it is on the disk, so that a
folder with the name of a checkpoint is always complete.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.documents import AnyFloat, check_record, read_json
from regard.errors import FileError, InputError, first_line
from regard.files import atomic_folder, remove_folder, remove_leftovers

_NAME = re.compile(r"step-(\d{8})")
_PARTS = ("model.safetensors", "optimizer.safetensors", "state.json")

Tensors = dict[str, Tensor]


class ParameterGroup(TypedDict, total=False):
    """A parameter group of AdamW; the loop trains with none of the variants that are False."""

    params: list[str]
    lr: float
    betas: list[float]
    eps: float
    weight_decay: float
    amsgrad: Literal[False]
    maximize: Literal[False]
    capturable: Literal[False]
    differentiable: Literal[False]
    foreach: bool | None
    fused: bool | None


class OptimizerRecord(TypedDict):
    """The part of an optimiser's state that is no tensor."""

    param_groups: list[ParameterGroup]


class ProgressRecord(TypedDict):
    """How far training has come; before the first evaluation the best metric is -inf."""

    step: int
    best: AnyFloat
    best_step: int
    stale: int


class PlaceRecord(TypedDict):
    """The position in the stream of batches."""

    epoch: int
    batch: int


class StateRecord(TypedDict):
    """The content of state.json; `task` is checked by the task itself."""

    step: int
    standing: ProgressRecord
    place: PlaceRecord
    optimizer: OptimizerRecord
    generators: list[int]
    task: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The weights, the optimiser's tensors, and the rest as JSON."""

    step: int
    model: Tensors
    optimizer: Tensors
    state: Mapping[str, Any]


def save_checkpoint(checkpoint: Checkpoint, folder: Path) -> Path:
    """Write a checkpoint into a folder of checkpoints, whole or not at all; returns its path."""
    path = folder / f"step-{checkpoint.step:08d}"
    state = {"step": checkpoint.step, **checkpoint.state}
    try:
        with atomic_folder(path) as temporary:
            for name, tensors in zip(
                _PARTS, (checkpoint.model, checkpoint.optimizer), strict=False
            ):
                contiguous = {key: tensor.detach().contiguous() for key, tensor in tensors.items()}
                save_file(contiguous, temporary / name)
            (temporary / _PARTS[2]).write_text(json.dumps(state))
    except (OSError, SafetensorError) as error:
        raise FileError(
            f"cannot write the checkpoint {str(path)!r} ({_reason(error)}); earlier ones are "
            "untouched: make room and run again to go on from the newest"
        ) from error
    return path


def load_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a folder."""
    try:
        state = read_json(path / _PARTS[2])
        _check_state(state)
        model, optimizer = (load_file(path / name) for name in _PARTS[:2])
        return Checkpoint(state.pop("step"), model, optimizer, state)
    except (OSError, SafetensorError, InputError) as error:
        raise unusable_checkpoint(path, error) from error


def _check_state(state: dict[str, Any]) -> None:
    """Raise an InputError unless the state of a checkpoint has its types, and counts from 0."""
    check_record(_PARTS[2], state, StateRecord)
    standing, place = state["standing"], state["place"]
    counts = [state["step"], standing["best_step"], standing["stale"]]
    counts += [place["epoch"], place["batch"]]
    if standing["step"] != state["step"] or min(counts) < 0:
        raise InputError(f"{_PARTS[2]} counts steps that no training has")


def unusable_checkpoint(path: Path, error: Exception) -> FileError:
    """The error for a checkpoint that cannot be read, or does not fit the model."""
    return FileError(
        f"cannot read the checkpoint {str(path)!r} ({_reason(error)}); remove the folder to go "
        "on from an earlier one"
    )


def checkpoints(folder: Path) -> list[Path]:
    """The paths of the checkpoints in a folder, the oldest first."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if _NAME.fullmatch(path.name))


def remove_old_checkpoints(folder: Path, keep: int, spared: Sequence[Path] = ()) -> None:
    """Remove all but the newest `keep` checkpoints and the spared ones, and unfinished ones."""
    for path in checkpoints(folder)[:-keep]:
        if path not in spared:
            remove_folder(path)
    remove_leftovers(folder)
    for path in folder.glob(".step-*"):  # unfinished ones of earlier versions
        remove_folder(path)


def average_weights(paths: Sequence[Path]) -> Tensors:
    """The mean of the weights of some checkpoints (Vaswani et al. 2017, section 6.1)."""
    total: Tensors = {}
    for path in paths:
        for name, each in load_checkpoint(path).model.items():
            total[name] = total[name] + each.double() if name in total else each.double()
    kinds = {name: each.dtype for name, each in load_checkpoint(paths[-1]).model.items()}
    return {name: (each / len(paths)).to(kinds[name]) for name, each in total.items()}


def flatten_optimizer_state(state: Mapping[str, Any]) -> tuple[Tensors, dict[str, Any]]:
    """The state of an optimiser as tensors by name, and the rest of it as plain data."""
    tensors = {
        f"{parameter}.{name}": each
        for parameter, parts in state["state"].items()
        for name, each in parts.items()
    }
    return tensors, {"param_groups": state["param_groups"]}


def restore_optimizer_state(
    tensors: Tensors, plain: Mapping[str, Any], weights: Tensors
) -> dict[str, Any]:
    """The state of an optimiser from what `flatten_optimizer_state` gave.

    An InputError if a tensor that has more than one number does not fit its parameter's weights.
    """
    if any(len(group.get("betas", (0.0, 0.0))) != 2 for group in plain["param_groups"]):
        raise InputError("a parameter group of the optimiser expected two betas")
    state: dict[str, Tensors] = {}
    for key, tensor in tensors.items():
        parameter, _, name = key.rpartition(".")
        shape = weights[parameter].shape if parameter in weights else tensor.shape
        if not tensor.is_floating_point() or (tensor.dim() and tensor.shape != shape):
            raise InputError(
                f"{key} of the optimiser should be floats of shape {tuple(shape)}, got "
                f"{tensor.dtype} of shape {tuple(tensor.shape)}"
            )
        state.setdefault(parameter, {})[name] = tensor
    return {"state": state, **plain}


def random_state() -> list[int]:
    """The state of torch's random number generator, as bytes."""
    state: list[int] = torch.get_rng_state().tolist()
    return state


def _reason(error: Exception) -> str:
    """The shortest text that says what went wrong."""
    return (isinstance(error, OSError) and error.strerror) or first_line(error)
