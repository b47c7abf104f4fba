"""All that is needed to go on training, written whole or not at all, and the averaging of weights.

A checkpoint is a folder step-00001000 with model.safetensors, optimizer.safetensors and state.json.
It is written under another name and renamed when all of it is on disk: what bears the name of a
checkpoint is one.
"""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import FileError
from regard.files import atomic_folder

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
    """Write a checkpoint into the folder of them; gives its own folder."""
    path = folder / f"step-{checkpoint.step:08d}"
    state = {"step": checkpoint.step, **checkpoint.state}
    try:
        with atomic_folder(path) as temporary:
            for name, tensors in zip(
                _PARTS, (checkpoint.model, checkpoint.optimizer), strict=False
            ):
                contiguous = {key: each.detach().contiguous() for key, each in tensors.items()}
                save_file(contiguous, temporary / name)
            (temporary / _PARTS[2]).write_text(json.dumps(state))
    except (OSError, SafetensorError) as error:
        raise FileError(
            f"cannot write the checkpoint {str(path)!r} ({_reason(error)}); earlier ones are "
            "untouched: make room and run again to go on from the newest"
        ) from error
    return path


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint that was written whole."""
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
    """The whole checkpoints of a folder, the oldest first."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if _NAME.fullmatch(path.name))


def forget(folder: Path, keep: int, spared: Sequence[Path] = ()) -> None:
    """Remove all but the newest checkpoints and those that are spared, and what was left aside."""
    for path in checkpoints(folder)[:-keep]:
        if path not in spared:
            shutil.rmtree(path, ignore_errors=True)
    for path in folder.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def average(paths: Sequence[Path]) -> Tensors:
    """The mean of the weights of some checkpoints (Vaswani et al. 2017, section 6.1)."""
    total: Tensors = {}
    for path in paths:
        for name, each in load_checkpoint(path).model.items():
            total[name] = total[name] + each.double() if name in total else each.double()
    kinds = {name: each.dtype for name, each in load_checkpoint(paths[-1]).model.items()}
    return {name: (each / len(paths)).to(kinds[name]) for name, each in total.items()}


def flattened(state: Mapping[str, Any]) -> tuple[Tensors, dict[str, Any]]:
    """An optimiser's state as named tensors, and what of it is plain data."""
    tensors = {
        f"{parameter}.{name}": each
        for parameter, parts in state["state"].items()
        for name, each in parts.items()
    }
    return tensors, {"param_groups": state["param_groups"]}


def restored(tensors: Tensors, plain: Mapping[str, Any]) -> dict[str, Any]:
    """The optimiser's state that `flattened` took apart."""
    state: dict[str, Tensors] = {}
    for key, each in tensors.items():
        parameter, _, name = key.rpartition(".")
        state.setdefault(parameter, {})[name] = each
    return {"state": state, **plain}


def generators() -> list[int]:
    """Where torch's random numbers are, as bytes."""
    found: list[int] = torch.get_rng_state().tolist()
    return found


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error)) or (
        type(error).__name__
    )
