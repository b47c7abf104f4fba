"""Reading the files of a checkpoint: JSON, safetensors, and pickles that hold only tensors.

A damaged file raises a FileError that names it. Code in a pickle is never run.
"""

import pickle
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard import documents
from regard.errors import FileError
from regard.models.checkpoints.stored_int8 import SCALE_SUFFIX, restore_matrix

__all__ = ["CheckpointTensors", "count_tensors", "read_json"]

_ADVICE = "download or write it again"


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; a FileError if the file is missing or is no JSON object."""
    if not file.is_file():
        raise FileError(f"{file.parent} has no {file.name}; expected the folder of a checkpoint")
    return documents.read_json(file, advice=_ADVICE)


class CheckpointTensors(Mapping[str, Tensor]):
    """The tensors of a checkpoint folder by name; each is read from its file on access.

    A matrix that was stored in 8 bits is returned in floating point.
    """

    def __init__(self, folder: Path) -> None:
        # Tensor name -> its file, and that file opened (safetensors) or loaded (a pickle).
        self._files: dict[str, Any] = {}
        for file in _weight_files(folder):
            opened = _open(file)
            for name in opened.keys():  # noqa: SIM118  safe_open is no mapping
                self._files[name] = (file, opened)

    def __getitem__(self, name: str) -> Tensor:
        scale = name + SCALE_SUFFIX
        if scale in self._files:
            return restore_matrix(self._read(name), self._read(scale), name)
        return self._read(name)

    def _read(self, name: str) -> Tensor:
        """A tensor as it is in its file."""
        file, opened = self._files[name]
        try:
            tensor: Tensor = opened[name] if isinstance(opened, dict) else opened.get_tensor(name)
        except SafetensorError as error:
            raise FileError(f"{file} is damaged at {name!r} ({error}); {_ADVICE}") from None
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading its data."""
        _, opened = self._files[name]
        if isinstance(opened, dict):
            return tuple(opened[name].shape)
        return tuple(opened.get_slice(name).get_shape())

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._files if not self._is_scale(name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _is_scale(self, name: str) -> bool:
        """True for the scales of a matrix that is stored in 8 bits."""
        return name.endswith(SCALE_SUFFIX) and name.removesuffix(SCALE_SUFFIX) in self._files


def count_tensors(folder: Path) -> int | None:
    """The number of tensors in the safetensors files of a folder; None if there are none."""
    files = sorted(folder.glob("*.safetensors"))
    return sum(len(_open(file).keys()) for file in files) if files else None


def _weight_files(folder: Path) -> list[Path]:
    """The files with weights: one file or the shards of an index; safetensors are preferred."""
    for whole in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{whole}.index.json"
        if (folder / whole).is_file():
            return [folder / whole]
        if index.is_file():
            weight_map = read_json(index).get("weight_map", {})
            documents.check_value(str(index), "weight_map", weight_map, dict[str, str])
            return [_check_shard(folder / name, index) for name in sorted({*weight_map.values()})]
    raise FileError(
        f"{folder} has no weights; expected model.safetensors (or its index, or pytorch_model.bin)"
    )


def _check_shard(file: Path, index: Path) -> Path:
    """The file itself; a FileError if it is missing or not in the folder of its index."""
    if file.parent != index.parent or not file.is_file():
        raise FileError(f"{index} names {file.name}, which is not there; download the rest")
    return file


def _open(file: Path) -> Any:
    """An open safetensors file, or the tensors of a pickle by name."""
    with file.open("rb") as opened:
        if opened.read(20).startswith(b"version https://git"):
            raise FileError(f"{file} is a pointer of Git LFS, not the weights; run git lfs pull")
    size = f"{file.stat().st_size:,} bytes"
    if file.suffix == ".safetensors":
        try:
            return safe_open(str(file), framework="pt")
        except SafetensorError as error:
            raise FileError(
                f"{file} is cut short or damaged ({size}: {error}); {_ADVICE}"
            ) from None
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise FileError(
            f"{file} holds more than tensors, which is not run; convert it to safetensors"
        ) from None
    except (RuntimeError, EOFError, ValueError, OSError) as error:
        raise FileError(f"{file} is cut short or damaged ({size}: {error}); {_ADVICE}") from None
    if not isinstance(loaded, dict):
        raise FileError(f"{file} should hold tensors by name, got {type(loaded).__name__}")
    return {name: value for name, value in loaded.items() if isinstance(value, Tensor)}
