"""Write a tree of plain data and tensors to one file; large tensors are written head by head."""

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
from regard.storage.layout import DTYPE_NAMES, LENGTH_BYTES, MAX_HEADER_BYTES, Blob, Header

_ADVICE = "; what was there before is as it was, write to another place or make room"
LARGE_TENSOR = 1 << 20  # a tensor of this many bytes or more is stored head by head
SURROGATE_PAIRS = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def write_tree(path: Path, tree: Any) -> None:
    """Write the tree; if anything fails, the file that was there before is unchanged."""
    packer = TensorPacker()
    state = packer.pack(tree, "")
    with (
        atomic_file(path, durable=True, advice=_ADVICE) as temporary,
        temporary.open("xb") as file,
    ):
        blobs = tuple(packer.blobs)
        text = Header(blobs, state).encode()
        if len(text) > MAX_HEADER_BYTES:
            raise InputError(
                f"the header of {path} would be {len(text):,} bytes, more than the "
                f"{MAX_HEADER_BYTES:,} that a safetensors file can have; save a part of the trace"
            )
        file.write(len(text).to_bytes(LENGTH_BYTES, "little") + text)
        checksums = [_write_tensor(file, tensor) for tensor in packer.tensors]
        # the checksums are known only now; the header with them has the same length
        file.seek(LENGTH_BYTES)
        pairs = zip(blobs, checksums, strict=True)
        blobs = tuple(replace(blob, checksum=checksum) for blob, checksum in pairs)
        file.write(Header(blobs, state).encode())


@dataclass
class TensorPacker:
    """Takes the tensors out of a tree, and leaves references to blobs where they were."""

    blobs: list[Blob] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    references: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def pack(self, tree: Any, name: str) -> Any:
        """The tree as JSON types; a blob is called by its path in the tree, as `maps.0.values`."""
        if isinstance(tree, Tensor):
            return self._add_tensor(tree.detach(), name)
        if isinstance(tree, dict):
            return {key: self.pack(item, _join(name, key)) for key, item in tree.items()}
        if isinstance(tree, list | tuple):
            return [self.pack(item, _join(name, index)) for index, item in enumerate(tree)]
        if isinstance(tree, str) and SURROGATE_PAIRS.search(tree):
            raise InputError(f"{tree!r} has surrogates in pairs, which no file can hold; join them")
        return tree.item() if isinstance(tree, np.generic) else tree

    def _add_tensor(self, tensor: Tensor, name: str) -> dict[str, Any]:
        """The reference to the tensor, which becomes a blob, or one blob for each head."""
        if tensor.dtype not in DTYPE_NAMES or tensor.layout != torch.strided:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPE_NAMES)
            raise InputError(
                f"cannot store {name}, a {tensor.layout} tensor of {tensor.dtype}; "
                f"expected a strided one of {known}"
            )
        # what maps share, such as a mask, is stored once
        memory = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if memory not in self.references:
            by_head = tensor.dim() > 1 and len(tensor) > 1 and tensor.nbytes >= LARGE_TENSOR
            self._align(tensor.itemsize)
            for head, piece in enumerate(tensor) if by_head else [(None, tensor)]:
                self._add(name if head is None else _join(name, head), piece)
            self.references[memory] = {"$tensor": name, "heads": len(tensor) if by_head else None}
        return self.references[memory]

    def _align(self, size: int) -> None:
        """Pad with a blob of zeros, because safetensors allows no unused bytes between tensors."""
        missing = -(self.blobs[-1].stop if self.blobs else 0) % size
        if missing:
            self._add(f"padding.{len(self.blobs)}", torch.zeros(missing, dtype=torch.uint8))

    def _add(self, name: str, tensor: Tensor) -> None:
        """Add a tensor as the next blob of the file."""
        start = self.blobs[-1].stop if self.blobs else 0
        blob = Blob(name, tensor.dtype, tuple(tensor.shape), start, start + tensor.nbytes)
        self.blobs.append(blob)
        self.tensors.append(tensor)


def _join(name: str, key: str | int) -> str:
    """The path of an item of the tree: the path of its parent, a dot, and its key."""
    return f"{name}.{key}" if name else str(key)


def _write_tensor(file: BinaryIO, tensor: Tensor) -> int:
    """Write the bytes of a tensor, and return their checksum."""
    numbers = tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data
    file.write(numbers)
    return zlib.crc32(numbers)
