"""Names of temporary paths, and removing those that a killed process left behind.

A name has three parts, .regard-MACHINE-PROCESS-RANDOM.part. Process numbers mean something on one
machine only, and only until it starts again or in one container, so MACHINE is a hash of all that.
"""

import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

_NAME = re.compile(r"\.regard-([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.part")
_PREFIX, _SUFFIX = ".regard-", ".part"
_SECONDS = 24 * 60 * 60  # after which a temporary path of an unknown process is abandoned


def temporary_path(folder: Path) -> Path:
    """A path in a folder that no other writer uses; its name says which process this is."""
    # The name is short even where that of the target is as long as a file system allows.
    unique = f"{_machine()}-{os.getpid()}-{secrets.token_hex(4)}"
    return folder / f"{_PREFIX}{unique}{_SUFFIX}"


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files and folders whose writers were killed from a folder."""
    with suppress(OSError):  # a folder that is missing or cannot be read has none
        for name in os.listdir(folder):  # noqa: PTH208 - a list of names is quicker than paths
            if is_temporary(name) and _is_abandoned(folder / name):
                _remove(folder / name)


def remove_folder(folder: Path) -> None:
    """Remove a folder so that nobody ever finds a part of it under its name."""
    temporary = temporary_path(folder.parent)
    try:
        folder.rename(temporary)
    except OSError:  # another process has removed it, or Windows keeps an open file
        temporary = folder
    shutil.rmtree(temporary, ignore_errors=True)


def is_temporary(name: str) -> bool:
    """True for the name of a temporary path of any version."""
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def _is_abandoned(path: Path) -> bool:
    """True if the writer of a temporary path is dead, or unknown and silent for a day."""
    parts = _NAME.fullmatch(path.name)
    # On Windows os.kill would end the process instead of asking whether it runs.
    if parts is not None and parts[1] == _machine() and os.name != "nt":
        return not _is_running(int(parts[2]))
    try:
        return time.time() - path.lstat().st_mtime > _SECONDS
    except OSError:
        return False


def _is_running(process: int) -> bool:
    """True if there is a process of this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # a process of another user
    return True


@cache
def _machine() -> str:
    """A hash of everything that a process number depends on."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - the link leads nowhere
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:8]


def _remove(path: Path) -> None:
    """Remove a file or a folder if that is possible."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
