"""A tree of plain data and tensors into one file, whole or not at all, a head at a time."""

import re
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError
from regard.files import atomic_file
from regard.storage.layout import LENGTH, MOST, NAMES, Blob, Header

_ADVICE = "; what was there before is as it was, write to another place or make room"
LARGE = 1 << 20  # bytes from which a tensor is stored head by head
BROKEN = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def write(path: Path, tree: Any) -> None:
    """Write the tree; on any failure the file that was there before is as it was."""
    packing = Packing()
    state = packing.packed(tree, "")
    with (
        atomic_file(path, durable=True, advice=_ADVICE) as temporary,
        temporary.open("xb") as file,
    ):
        blobs = tuple(packing.blobs)
        text = Header(blobs, state).encoded()
        if len(text) > MOST:
            raise InputError(
                f"the header of {path} would be {len(text):,} bytes, more than the {MOST:,} that "
                "a safetensors file can have; save a part of the trace"
            )
        file.write(len(text).to_bytes(LENGTH, "little") + text)
        sums = [_written(file, tensor) for tensor in packing.tensors]
        file.seek(LENGTH)
        blobs = tuple(replace(blob, checksum=s) for blob, s in zip(blobs, sums, strict=True))
        file.write(Header(blobs, state).encoded())


@dataclass
class Packing:
    """Takes the tensors out of a tree, and leaves references to blobs in their places."""

    blobs: list[Blob] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    known: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def packed(self, part: Any, name: str) -> Any:
        """The part as JSON types; blobs are called by the path that leads to them."""
        if isinstance(part, Tensor):
            return self._reference(part.detach(), name)
        if isinstance(part, dict):
            return {key: self.packed(each, _join(name, key)) for key, each in part.items()}
        if isinstance(part, list | tuple):
            return [self.packed(each, _join(name, place)) for place, each in enumerate(part)]
        if isinstance(part, str) and BROKEN.search(part):
            raise InputError(f"{part!r} has surrogates in pairs, which no file can hold; join them")
        return part.item() if isinstance(part, np.generic) else part

    def _reference(self, tensor: Tensor, name: str) -> dict[str, Any]:
        if tensor.dtype not in NAMES or tensor.layout != torch.strided:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in NAMES)
            raise InputError(
                f"cannot store {name}, a {tensor.layout} tensor of {tensor.dtype}; "
                f"expected a strided one of {known}"
            )
        # what maps share, such as a mask, is stored once
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if place not in self.known:
            many = tensor.dim() > 1 and len(tensor) > 1 and tensor.nbytes >= LARGE
            self._align(tensor.itemsize)
            for head, each in enumerate(tensor) if many else [(None, tensor)]:
                self._add(name if head is None else _join(name, head), each)
            self.known[place] = {"$tensor": name, "heads": len(tensor) if many else None}
        return self.known[place]

    def _align(self, size: int) -> None:
        """Fill up with a blob of zeros: the format has no holes."""
        missing = -(self.blobs[-1].stop if self.blobs else 0) % size
        if missing:
            self._add(f"padding.{len(self.blobs)}", torch.zeros(missing, dtype=torch.uint8))

    def _add(self, name: str, tensor: Tensor) -> None:
        start = self.blobs[-1].stop if self.blobs else 0
        blob = Blob(name, tensor.dtype, tuple(tensor.shape), start, start + tensor.nbytes)
        self.blobs.append(blob)
        self.tensors.append(tensor)


def _join(name: str, place: str | int) -> str:
    return f"{name}.{place}" if name else str(place)


def _written(file: BinaryIO, tensor: Tensor) -> int:
    """Write the tensor's bytes; their checksum."""
    numbers = tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data
    file.write(numbers)
    return zlib.crc32(numbers)
