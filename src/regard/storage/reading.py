"""Read a trace file: check its header, then read its tensors, or map those of a large file."""

import mmap
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from regard.errors import FileError, first_line
from regard.storage.layout import LENGTH_BYTES, MAGIC, VERSION, Blob, Header, decode_header

MAX_WHOLE_FILE = 1 << 26  # a file of up to 64 MiB is read as a whole, and every tensor checked
MAPPED_AT_ONCE = 1 << 30  # bytes that are mapped at once; a larger tensor is mapped by itself
CHUNK = 1 << 20
WRITE_AGAIN = "copy it again, or write it anew with save_trace"


def read_tree(path: Path, *, verify: bool) -> Any:
    """The tree that was written, with tensors in memory if the file is small, else mapped.

    Checksums of a file above MAX_WHOLE_FILE bytes are compared only if `verify` is True, because
    that reads the whole file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            header, start = _read_header(path, file, size)
            if verify or size <= MAX_WHOLE_FILE:
                _check_blobs(path, file, header, start)
            blobs = {blob.name: blob for blob in header.blobs}
            return TensorUnpacker(file, size, start, blobs).unpack(header.state)
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"cannot read {path}: {error.strerror or error}; give the path of a saved trace"
        ) from error


def _read_header(path: Path, file: BinaryIO, size: int) -> tuple[Header, int]:
    """The header, and the byte at which the blobs start."""
    file.seek(0)
    length, opening = int.from_bytes(file.read(LENGTH_BYTES), "little"), file.read(len(MAGIC))
    if not MAGIC.startswith(opening):
        raise FileError(
            f"{path} is no trace: expected a header that begins with {MAGIC[:40]!r}, got "
            f"{opening[:40]!r}; give the path of a file that save_trace wrote"
        )
    start = LENGTH_BYTES + max(length, len(MAGIC))
    if size < start:
        raise FileError(
            f"{path} is cut short: expected {start:,} bytes, got {size:,}; {WRITE_AGAIN}"
        )
    file.seek(LENGTH_BYTES)
    text = file.read(length)
    _check_version(path, text)
    try:
        header = decode_header(text)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{path} is damaged: expected its header as it was written, got another "
            f"({first_line(error)}); {WRITE_AGAIN}"
        ) from error
    if size != start + header.stop:
        problem = "cut short" if size < start + header.stop else "too long"
        raise FileError(
            f"{path} is {problem}: expected {start + header.stop:,} bytes, got {size:,}; "
            f"{WRITE_AGAIN}"
        )
    return header, start


def _check_version(path: Path, text: bytes) -> None:
    """Refuse a file of a newer format, before anything else in its header is read."""
    version = re.match(rb"[1-9][0-9]{0,8}(?=\")", text[len(MAGIC) :])
    if version and int(version[0]) > VERSION:
        raise FileError(
            f"{path} is of format {int(version[0])}: expected format {VERSION} or older, got one "
            "that a newer regard wrote; upgrade with pip install -U regard"
        )


def _check_blobs(path: Path, file: BinaryIO, header: Header, start: int) -> None:
    """Compare the bytes of every blob with its checksum, a chunk at a time."""
    file.seek(start)
    for blob in header.blobs:
        checksum, left = 0, blob.stop - blob.start
        while left and (chunk := file.read(min(left, CHUNK))):
            checksum, left = zlib.crc32(chunk, checksum), left - len(chunk)
        if left or checksum != blob.checksum:
            raise FileError(
                f"{path} is damaged in {blob.name}: expected the checksum {blob.checksum:08x}, "
                f"got {checksum:08x}; {WRITE_AGAIN}"
            )


@dataclass
class TensorUnpacker:
    """Puts tensors back into a tree, where the writer left references to blobs."""

    file: BinaryIO
    size: int
    start: int
    blobs: dict[str, Blob]
    tensors: dict[str, Tensor] = field(default_factory=dict)
    buffer: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.uint8))
    buffer_start: int = 0

    def unpack(self, tree: Any) -> Any:
        """The tree with its tensors."""
        if isinstance(tree, list):
            return [self.unpack(item) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if "$tensor" not in tree:
            return {key: self.unpack(item) for key, item in tree.items()}
        name = tree["$tensor"]
        if name not in self.tensors:
            self.tensors[name] = self._read_tensor(name, tree["heads"])
        return self.tensors[name]

    def _read_tensor(self, name: str, heads: int | None) -> Tensor:
        """The tensor of that name; blobs of its heads lie side by side and make one tensor."""
        first = self.blobs[name if heads is None else f"{name}.0"]
        shape = first.shape if heads is None else (heads, *first.shape)
        length = (first.stop - first.start) * (1 if heads is None else heads)
        numbers = self._read_bytes(self.start + first.start, length)
        return numbers.view(first.dtype).view(shape)

    def _read_bytes(self, start: int, length: int) -> Tensor:
        """Bytes of the file as a view of the buffer, which is filled anew if it lacks them."""
        if not self.buffer_start <= start <= start + length <= self.buffer_start + len(self.buffer):
            self._fill_buffer(start, length)
        return self.buffer[start - self.buffer_start :][:length]

    def _fill_buffer(self, start: int, length: int) -> None:
        """Read a small file as a whole, or map a part of a large one (copied when written to)."""
        if self.size <= MAX_WHOLE_FILE:
            self.buffer = torch.empty(self.size, dtype=torch.uint8)
            self.file.seek(0)
            self.file.readinto(self.buffer.numpy())  # type: ignore[attr-defined]
            return
        self.buffer_start = start // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        length = max(
            start + length - self.buffer_start, min(MAPPED_AT_ONCE, self.size - self.buffer_start)
        )
        mapped = mmap.mmap(
            self.file.fileno(), length, access=mmap.ACCESS_COPY, offset=self.buffer_start
        )
        self.buffer = torch.frombuffer(mapped, dtype=torch.uint8)
