"""A lock file that lets one process at a time work at a place; it does not outlive its process.

The system holds the lock, not the file: a process that is killed has given it up at once. The file
says which process holds it, and is removed when the block ends.
"""

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from regard.errors import FileError

try:
    import fcntl as _unix
except ImportError:  # Windows
    _unix = None  # type: ignore[assignment]

_BEYOND = 1 << 30  # the byte that is locked on Windows, where a locked byte cannot be read
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)


@contextmanager
def exclusive_lock(path: Path, work: str, advice: str) -> Iterator[None]:
    """Hold the lock of a file; a FileError if another process holds it.

    The message is made of `work`, such as "training in run", and `advice`. On a file system that
    has no locks the block runs without one.
    """
    descriptor = _acquire(path, work, advice)
    try:
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            with os.fdopen(descriptor, "w", closefd=False) as file:
                file.write(f"process {os.getpid()} on {platform.node()}")
        yield
    finally:
        # Where an open file cannot be removed, as on Windows, it stays, and nobody holds it.
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path, work: str, advice: str) -> int:
    """The descriptor of the locked file."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise FileError(f"cannot write {path}: {error.strerror}") from error
        if not _lock(descriptor):
            holder = os.read(descriptor, 200).decode(errors="replace") or "another process"
            os.close(descriptor)
            raise FileError(f"{holder} is {work}; {advice}")
        # Between opening and locking, another process may have ended and removed the file.
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock an open file; False if another process holds its lock."""
    try:
        if _unix is not None:
            _unix.flock(descriptor, _unix.LOCK_EX | _unix.LOCK_NB)
        else:
            _lock_on_windows(descriptor)
    except OSError as error:
        return error.errno not in _HELD
    return True


def _lock_on_windows(descriptor: int) -> None:
    """Lock a byte that the file does not have."""
    import msvcrt

    windows: Any = msvcrt
    os.lseek(descriptor, _BEYOND, os.SEEK_SET)
    windows.locking(descriptor, windows.LK_NBLCK, 1)
    os.lseek(descriptor, 0, os.SEEK_SET)
