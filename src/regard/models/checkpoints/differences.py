"""Checkpoints that are stored as a difference to another one, their base.

Several models that were adapted from one trunk share it: the config.json of each names the base,

    {"class": "Transformer", "base": "trunk-en", "head": "classes", ...}

and model.safetensors holds what differs. A matrix that learnt a difference of low rank (see
`regard.models.low_rank`) has its factors there, under the name of the matrix; whatever was trained
otherwise is stored whole:

    encoder.layers.5.attention.w_q.weight:down    (32, 384)
    encoder.layers.5.attention.w_q.weight:up      (384, 32)
    head.output.weight                            (2, 384)

All other tensors, and the tokenizer, are those of the base: a shipped model or a folder beside this
one. A loaded model has W + up @ down as its matrices and is an ordinary model.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from regard.errors import FileError
from regard.models.checkpoints.files import CheckpointTensors, read_json
from regard.models.checkpoints.locations import ZOO

__all__ = ["DOWN", "UP", "AdaptedTensors", "base_folder", "changed_tensors"]

DOWN, UP = ":down", ":up"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)


def base_folder(folder: Path, base: Any) -> Path:
    """The folder of the base that a config.json names: beside its own folder, or shipped."""
    file = folder / "config.json"
    if not isinstance(base, str) or _PLAIN_NAME.fullmatch(base) is None:
        raise FileError(
            f"{file} expected as its base the name of a shipped model or of a folder beside this "
            f"one, got {str(base)[:60]!r}"
        )
    for parent in (folder.resolve().parent, ZOO):
        if (parent / base / "config.json").is_file():
            if "base" in read_json(parent / base / "config.json"):
                raise FileError(f"{file} names the base {base}, which is a difference itself")
            return parent / base
    raise FileError(
        f"{folder} is stored as a difference to {base}, which is neither shipped with this version "
        "nor beside it; put that folder there"
    )


class AdaptedTensors(Mapping[str, Tensor]):
    """The tensors of a model that is stored as a difference, by name; each is made on access."""

    def __init__(self, own: CheckpointTensors, base: CheckpointTensors, folder: Path) -> None:
        self._own, self._base, self._folder = own, base, folder
        self._adapted = {name.removesuffix(UP) for name in own if name.endswith(UP)}
        factors = {name + end for name in self._adapted for end in (UP, DOWN)}
        whole = {name for name in own if not name.endswith((UP, DOWN))}
        strangers = (set(own) ^ (factors | whole)) | (self._adapted - set(base))
        if strangers:
            raise FileError(
                f"{folder} has {min(strangers)!r} without what belongs to it; is its base another "
                "model, or is the file damaged? Download or write it again"
            )
        self._names = list(dict.fromkeys([*base, *sorted(whole)]))

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._adapted:
            return self._own[name] if name in self._own else self._base[name]
        weight, up, down = self._base[name], self._own[name + UP], self._own[name + DOWN]
        if (*up.shape[:1], *down.shape[1:]) != weight.shape or up.shape[1:] != down.shape[:1]:
            raise FileError(
                f"the factors of {name!r} in {self._folder} do not fit its base: "
                f"{tuple(up.shape)} and {tuple(down.shape)} for {tuple(weight.shape)}"
            )
        return weight + up.to(weight.dtype) @ down.to(weight.dtype)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading its data."""
        whole = name in self._own and name not in self._adapted
        return self._own.shape(name) if whole else self._base.shape(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def changed_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model that were trained: factors of differences, and all that is not frozen.

    The model's low-rank layers have not been merged.
    """
    changed: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            path, _, last = name.rpartition(".")
            stored = f"{path}.weight:{last}" if last in ("up", "down") else name
            changed[stored] = parameter.detach().clone()
    return changed
