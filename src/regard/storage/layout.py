"""The header of a file: which bytes are which tensor, what they are for, and their checksums."""

import json
import math
import zlib
from dataclasses import dataclass
from typing import Any

import torch

FORMAT = "regard trace"
VERSION = 2  # 1 had no head numbers, values and gradients of maps
MAGIC = f'{{"__metadata__":{{"format":"{FORMAT}","version":"'.encode()
LENGTH = 8  # bytes that hold the header's own length
MOST = 100_000_000  # bytes of a header that readers of safetensors accept
ALIGNED = 64  # the tensors begin at a multiple of this
UNSEALED = b'"crc32":"00000000"'

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


@dataclass(frozen=True)
class Blob:
    """A run of bytes of the file, counted from the end of the header, and what they hold."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int
    checksum: int = 0


@dataclass(frozen=True)
class Header:
    """The blobs in the order of their bytes, and the JSON that refers to them."""

    blobs: tuple[Blob, ...]
    state: Any

    @property
    def stop(self) -> int:
        """How many bytes the blobs are together."""
        return self.blobs[-1].stop if self.blobs else 0

    def encoded(self) -> bytes:
        """The header as bytes, sealed with its own checksum; as long, whatever the checksums."""
        metadata = {
            "format": FORMAT,
            "version": str(VERSION),
            "crc32": "00000000",
            "blobs_crc32": "".join(f"{blob.checksum:08x}" for blob in self.blobs),
            "state": json.dumps(self.state, separators=(",", ":")),
        }
        entries = {
            blob.name: {
                "dtype": NAMES[blob.dtype],
                "shape": blob.shape,
                "data_offsets": (blob.start, blob.stop),
            }
            for blob in self.blobs
        }
        text = json.dumps({"__metadata__": metadata} | entries, separators=(",", ":")).encode()
        text += b" " * (-(LENGTH + len(text)) % ALIGNED)
        return text.replace(UNSEALED, _seal(zlib.crc32(text)), 1)


def decoded(text: bytes) -> Header:
    """The header that these bytes are; a ValueError unless they are as they were written."""
    entries = json.loads(text)
    metadata = entries.pop("__metadata__")
    seal = f'"crc32":"{metadata["crc32"]}"'.encode()
    if _seal(zlib.crc32(text.replace(seal, UNSEALED, 1))) != seal:
        raise ValueError("its checksum does not fit")
    sums = _eights(metadata["blobs_crc32"])
    blobs = tuple(
        _blob(name, each, checksum)
        for (name, each), checksum in zip(entries.items(), sums, strict=True)
    )
    stop = 0
    for blob in blobs:
        if (blob.start, blob.stop) != (stop, stop + math.prod(blob.shape) * blob.dtype.itemsize):
            raise ValueError(f"the bytes of {blob.name} are not where they should be")
        stop = blob.stop
    return Header(blobs, json.loads(metadata["state"]))


def _blob(name: str, entry: Any, checksum: str) -> Blob:
    start, stop = entry["data_offsets"]
    shape = tuple(entry["shape"])
    return Blob(name, DTYPES[entry["dtype"]], shape, start, stop, int(checksum, 16))


def _seal(checksum: int) -> bytes:
    return f'"crc32":"{checksum:08x}"'.encode()


def _eights(text: str) -> list[str]:
    return [text[start : start + 8] for start in range(0, len(text), 8)]
