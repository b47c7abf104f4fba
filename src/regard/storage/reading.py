"""A file back into its tree: each byte of the header is checked, tensors of large files mapped."""

import mmap
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from regard.errors import FileError
from regard.storage.layout import LENGTH, MAGIC, VERSION, Blob, Header, decoded

WHOLE = 1 << 26  # bytes up to which a file is read whole and checked
MAPPED = 1 << 30  # bytes that are mapped at once; a larger tensor is mapped alone
PIECE = 1 << 20
AGAIN = "copy it again, or write it anew with save_trace"


def read(path: Path, *, verify: bool) -> Any:
    """The tree that was written, its tensors in memory if the file is small, else mapped."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            header, start = _header(path, file, size)
            if verify or size <= WHOLE:
                _check_blobs(path, file, header, start)
            blobs = {blob.name: blob for blob in header.blobs}
            return Unpacking(file, size, start, blobs).unpacked(header.state)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"cannot read {path}: {error.strerror or error}; give the path of a saved trace"
        ) from error


def _header(path: Path, file: BinaryIO, size: int) -> tuple[Header, int]:
    """The header, and where the blobs start."""
    file.seek(0)
    length, opening = int.from_bytes(file.read(LENGTH), "little"), file.read(len(MAGIC))
    if not MAGIC.startswith(opening):
        raise FileError(
            f"{path} is no trace: expected a header that begins with {MAGIC[:40]!r}, got "
            f"{opening[:40]!r}; give the path of a file that save_trace wrote"
        )
    start = LENGTH + max(length, len(MAGIC))
    if size < start:
        raise FileError(f"{path} is cut short: expected {start:,} bytes, got {size:,}; {AGAIN}")
    file.seek(LENGTH)
    text = file.read(length)
    _check_version(path, text)
    try:
        header = decoded(text)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{path} is damaged: expected its header as it was written, got another ({error}); "
            f"{AGAIN}"
        ) from error
    if size != start + header.stop:
        problem = "cut short" if size < start + header.stop else "too long"
        raise FileError(
            f"{path} is {problem}: expected {start + header.stop:,} bytes, got {size:,}; {AGAIN}"
        )
    return header, start


def _check_version(path: Path, text: bytes) -> None:
    found = re.match(rb"[1-9][0-9]{0,8}(?=\")", text[len(MAGIC) :])
    if found and int(found[0]) > VERSION:
        raise FileError(
            f"{path} is of format {int(found[0])}: expected format {VERSION} or older, got one "
            "that a newer regard wrote; upgrade with pip install -U regard"
        )


def _check_blobs(path: Path, file: BinaryIO, header: Header, start: int) -> None:
    file.seek(start)
    for blob in header.blobs:
        checksum, left = 0, blob.stop - blob.start
        while left and (piece := file.read(min(left, PIECE))):
            checksum, left = zlib.crc32(piece, checksum), left - len(piece)
        if left or checksum != blob.checksum:
            raise FileError(
                f"{path} is damaged in {blob.name}: expected the checksum {blob.checksum:08x}, "
                f"got {checksum:08x}; {AGAIN}"
            )


@dataclass
class Unpacking:
    """Puts tensors back into a tree, in the places of the references to blobs."""

    file: BinaryIO
    size: int
    start: int
    blobs: dict[str, Blob]
    known: dict[str, Tensor] = field(default_factory=dict)
    held: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.uint8))
    held_from: int = 0

    def unpacked(self, part: Any) -> Any:
        """The part with its tensors."""
        if isinstance(part, list):
            return [self.unpacked(each) for each in part]
        if not isinstance(part, dict):
            return part
        if "$tensor" not in part:
            return {key: self.unpacked(each) for key, each in part.items()}
        name = part["$tensor"]
        if name not in self.known:
            self.known[name] = self._tensor(name, part["heads"])
        return self.known[name]

    def _tensor(self, name: str, heads: int | None) -> Tensor:
        """The tensor; blobs of its heads lie side by side and are seen as one."""
        first = self.blobs[name if heads is None else f"{name}.0"]
        shape = first.shape if heads is None else (heads, *first.shape)
        length = (first.stop - first.start) * (1 if heads is None else heads)
        numbers = self._bytes(self.start + first.start, length)
        return numbers.view(first.dtype).view(shape)

    def _bytes(self, start: int, length: int) -> Tensor:
        if not self.held_from <= start <= start + length <= self.held_from + len(self.held):
            self._hold(start, length)
        return self.held[start - self.held_from :][:length]

    def _hold(self, start: int, length: int) -> None:
        """Read a small file whole, or map some of a large one; writing to it stays in memory."""
        if self.size <= WHOLE:
            self.held = torch.empty(self.size, dtype=torch.uint8)
            self.file.seek(0)
            self.file.readinto(self.held.numpy())  # type: ignore[attr-defined]
            return
        self.held_from = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        wanted = max(start + length - self.held_from, min(MAPPED, self.size - self.held_from))
        mapped = mmap.mmap(
            self.file.fileno(), wanted, access=mmap.ACCESS_COPY, offset=self.held_from
        )
        self.held = torch.frombuffer(mapped, dtype=torch.uint8)
