"""The header of a trace file: where each tensor lies, the tree that refers to it, checksums."""

import json
import math
import zlib
from dataclasses import dataclass
from typing import Any

import torch

from regard.documents import parse_json

FORMAT = "regard trace"
VERSION = 2  # format 1 had no head numbers, values and gradients of maps
MAGIC = f'{{"__metadata__":{{"format":"{FORMAT}","version":"'.encode()
LENGTH_BYTES = 8  # bytes that hold the header's own length
MAX_HEADER_BYTES = 100_000_000  # the longest header that readers of safetensors accept
ALIGNMENT = 64  # the tensors begin at a multiple of this, so that they can be memory-mapped
EMPTY_CHECKSUM = b'"crc32":"00000000"'

DTYPE_NAMES = {
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
DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}


@dataclass(frozen=True)
class Blob:
    """A tensor, or one head of it, as a run of bytes counted from the end of the header."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int
    checksum: int = 0


@dataclass(frozen=True)
class Header:
    """The blobs in the order of their bytes, and the tree (as JSON) that refers to them by name."""

    blobs: tuple[Blob, ...]
    state: Any

    @property
    def stop(self) -> int:
        """The number of bytes of all blobs together."""
        return self.blobs[-1].stop if self.blobs else 0

    def encode(self) -> bytes:
        """The header as bytes, with a checksum of itself.

        Its length does not depend on the checksums, so that a writer can fill in those of the
        blobs after it has written them.
        """
        metadata = {
            "format": FORMAT,
            "version": str(VERSION),
            "crc32": "00000000",
            "blobs_crc32": "".join(f"{blob.checksum:08x}" for blob in self.blobs),
            "state": json.dumps(self.state, separators=(",", ":")),
        }
        entries = {
            blob.name: {
                "dtype": DTYPE_NAMES[blob.dtype],
                "shape": blob.shape,
                "data_offsets": (blob.start, blob.stop),
            }
            for blob in self.blobs
        }
        text = json.dumps({"__metadata__": metadata} | entries, separators=(",", ":")).encode()
        text += b" " * (-(LENGTH_BYTES + len(text)) % ALIGNMENT)
        return text.replace(EMPTY_CHECKSUM, _checksum_entry(zlib.crc32(text)), 1)


def decode_header(text: bytes) -> Header:
    """The header that these bytes hold; a ValueError unless they are as they were written."""
    entries = parse_json(text, "it")
    metadata = entries.pop("__metadata__")
    # the checksum was computed while its own digits were zeros
    own_entry = f'"crc32":"{metadata["crc32"]}"'.encode()
    if _checksum_entry(zlib.crc32(text.replace(own_entry, EMPTY_CHECKSUM, 1))) != own_entry:
        raise ValueError("its checksum does not fit")
    checksums = _split_checksums(metadata["blobs_crc32"])
    blobs = tuple(
        _read_blob(name, entry, checksum)
        for (name, entry), checksum in zip(entries.items(), checksums, strict=True)
    )
    stop = 0
    for blob in blobs:
        if (blob.start, blob.stop) != (stop, stop + math.prod(blob.shape) * blob.dtype.itemsize):
            raise ValueError(f"the bytes of {blob.name} are not where they should be")
        stop = blob.stop
    return Header(blobs, parse_json(metadata["state"], "its tree"))


def _read_blob(name: str, entry: Any, checksum: str) -> Blob:
    """The blob that an entry of the header describes."""
    start, stop = entry["data_offsets"]
    shape = tuple(entry["shape"])
    return Blob(name, DTYPES[entry["dtype"]], shape, start, stop, int(checksum, 16))


def _checksum_entry(checksum: int) -> bytes:
    """The checksum of the header as it is written inside the header."""
    return f'"crc32":"{checksum:08x}"'.encode()


def _split_checksums(text: str) -> list[str]:
    """The checksums of the blobs, which are written one after another with 8 digits each."""
    return [text[start : start + 8] for start in range(0, len(text), 8)]
