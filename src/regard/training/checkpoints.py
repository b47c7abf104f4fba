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
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import FileError
from regard.files import atomic_folder, remove_folder, remove_leftovers

_NAME = re.compile(r"step-(\d{8})")
_PARTS = ("model.safetensors", "optimizer.safetensors", "state.json")

Tensors = dict[str, Tensor]


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
        state = json.loads((path / _PARTS[2]).read_text())
        model, optimizer = (load_file(path / name) for name in _PARTS[:2])
        return Checkpoint(state.pop("step"), model, optimizer, state)
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise FileError(
            f"cannot read the checkpoint {str(path)!r} ({_reason(error)}); remove the folder to go "
            "on from an earlier one"
        ) from error


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


def restore_optimizer_state(tensors: Tensors, plain: Mapping[str, Any]) -> dict[str, Any]:
    """The state of an optimiser from what `flatten_optimizer_state` gave."""
    state: dict[str, Tensors] = {}
    for key, each in tensors.items():
        parameter, _, name = key.rpartition(".")
        state.setdefault(parameter, {})[name] = each
    return {"state": state, **plain}


def random_state() -> list[int]:
    """The state of torch's random number generator, as bytes."""
    state: list[int] = torch.get_rng_state().tolist()
    return state


def _reason(error: Exception) -> str:
    """The shortest text that says what went wrong."""
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or (
        type(error).__name__
    )
