"""Replacing an existing folder by a new one that is complete, and reading one meanwhile.

There are three ways, the first that is possible is taken:

1. Linux and macOS exchange two names in one step. At every moment the path leads to the old folder
   or to the new one.
2. Elsewhere the old folder is renamed to a name that is made from its own, .regard-HASH.old, and
   the new one takes its place. After a kill between the two, the path is missing;
   `finish_replacement`, which writers and readers call first, puts the old folder back.
3. A mount point, the working directory, or a folder in a place where nothing can be created cannot
   be renamed. The new files are gathered inside as .regard-new, which is complete from the moment
   it has that name, and then each takes its place. After a kill `finish_replacement` goes on.

Other files of the folder (`own_names` are ours) are linked into the new one before.
"""

import ctypes
import errno
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import FileError
from regard.files.temporary import is_temporary, remove_folder, temporary_path

T = TypeVar("T")

_STAGED = ".regard-new"
_TRIES = 9  # that are made while other processes replace the same folder
_IN_THE_WAY = (errno.ENOTEMPTY, errno.EEXIST)
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
_NO_RENAME = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
_CURRENT_FOLDER, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of Linux and RENAME_SWAP of macOS


def replace_folder(temporary: Path, target: Path, own_names: Sequence[str] | None) -> None:
    """Let a complete folder take the name of another; the temporary name is free afterwards."""
    if temporary.parent == target:
        _replace_inside(temporary, target, own_names)
        return
    for _ in range(_TRIES):
        try:
            if not target.exists():
                temporary.rename(target)
                return
            _link_other_files(target, temporary, own_names)
            _swap(temporary, target)
            _move_late_files(temporary, target, own_names)
            remove_folder(temporary)
            return
        except FileNotFoundError:
            continue  # another process has replaced the folder meanwhile
        except OSError as error:
            if error.errno in _NO_RENAME and target.is_dir():
                _replace_inside(temporary, target, own_names)
                return
            if error.errno not in _IN_THE_WAY:
                raise
    raise OSError(errno.EBUSY, f"other processes keep replacing {target}")


def finish_replacement(path: Path, own_names: Sequence[str] | None) -> None:
    """Finish what a killed process began: a folder is then at its path, with its own files."""
    target = Path(os.path.realpath(path))
    if not target.exists():
        with suppress(OSError):  # there is none
            _set_aside_path(target).rename(target)
    elif (target / _STAGED).is_dir():
        try:
            _move_staged_files(target, own_names)
        except OSError as error:
            raise FileError(
                f"a save to {path} was interrupted and cannot be finished ({error.strerror}); load "
                "or save it as a user who may write there"
            ) from error


def read_unchanged_folder(folder: Path, read: Callable[[], T]) -> T:
    """What `read` returns; it is called again if the folder was replaced meanwhile.

    A reader opens several files one after another, and must not mix those of two folders.
    """
    for _ in range(_TRIES):
        before = _identity(folder)
        try:
            result = read()
        except Exception:
            if _identity(folder) == before:
                raise
            continue
        if _identity(folder) == before:
            return result
    return read()


def writes_inside(target: Path) -> bool:
    """True if an existing folder cannot be renamed and is replaced from inside."""
    # A shell whose working directory is renamed would be left in one that is removed.
    with suppress(OSError):  # the working directory itself may be removed already
        if Path.cwd().is_relative_to(target):
            return True
    return any(point.is_relative_to(target) for point in _mount_points(target))


def _mount_points(target: Path) -> list[Path]:
    """Where file systems are mounted; where Linux does not say, the target if it is one."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return [target] if target.is_mount() else []
    names = (line.split(" ")[4] for line in lines)
    # A space in a name is written as \040.
    points = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line) for line in names)
    return [Path(point) for point in points]


def _link_other_files(old: Path, new: Path, own_names: Sequence[str] | None) -> None:
    """Give the new folder the mode of the old one, and links to the files that are not ours."""
    with suppress(OSError):
        shutil.copystat(old, new)
        os.utime(new)  # `_identity` tells folders apart by their times
    if own_names is None:
        return
    for path in old.iterdir():
        if path.name in own_names or (new / path.name).exists() or is_temporary(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, new / path.name, symlinks=True, copy_function=_link_file)
        else:
            _link_file(path, new / path.name)


def _link_file(source: str | Path, target: str | Path) -> Any:
    """Make a hard link, or a copy where the file system has no links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return target
    except (OSError, NotImplementedError):
        shutil.copy2(source, target, follow_symlinks=False)
    return target


def _swap(new: Path, old: Path) -> None:
    """Exchange the names of two folders: in one step, or else in two renames."""
    if _exchange_names(new, old):
        return
    aside = _set_aside_path(old)
    if aside.exists():  # of a process that was killed after it had put its folder in place
        remove_folder(aside)
    old.rename(aside)
    try:
        new.rename(old)
    except OSError:
        with suppress(OSError):
            aside.rename(old)
        raise
    aside.rename(new)


def _exchange_names(first: Path, second: Path) -> bool:
    """Exchange two names in one step; False where the system or the file system cannot."""
    names = os.fsencode(first), os.fsencode(second)
    library: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if sys.platform == "linux" and hasattr(library, "renameat2"):
        here = _CURRENT_FOLDER
        failed = library.renameat2(here, names[0], here, names[1], ctypes.c_uint(_EXCHANGE))
    elif sys.platform == "darwin" and hasattr(library, "renamex_np"):
        failed = library.renamex_np(*names, ctypes.c_uint(_EXCHANGE))
    else:
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(second))


def _set_aside_path(target: Path) -> Path:
    """Where the old folder is while the new one takes its place, if that needs two renames."""
    return target.with_name(f".regard-{hashlib.sha256(target.name.encode()).hexdigest()[:16]}.old")


def _move_late_files(old: Path, new: Path, own_names: Sequence[str] | None) -> None:
    """Move files into the new folder that a user put into the old one while it was replaced."""
    if own_names is None:
        return
    for path in old.iterdir():
        if path.name not in own_names and not (new / path.name).exists():
            with suppress(OSError):
                path.rename(new / path.name)


def _replace_inside(temporary: Path, target: Path, own_names: Sequence[str] | None) -> None:
    """Replace the files of a folder that cannot be renamed."""
    if temporary.parent != target:
        copy = temporary_path(target)
        copy.mkdir()
        for path in temporary.iterdir():
            if own_names is None or path.name in own_names:  # others are there already
                shutil.copy2(path, copy)
        temporary = copy
    temporary.rename(target / _STAGED)
    _move_staged_files(target, own_names)


def _move_staged_files(target: Path, own_names: Sequence[str] | None) -> None:
    """Give the staged files of a folder their names, and remove our files that are not staged.

    They are linked, so that the staged folder is complete until all is done: after a kill, or in
    two processes at once, the same again leads to the same end.
    """
    staged = target / _STAGED
    try:
        names = {path.name for path in staged.iterdir()}
        for name in names:
            link = temporary_path(target)
            _link_file(staged / name, link)
            link.replace(target / name)
    except FileNotFoundError:
        return  # another process has done it meanwhile
    present = {path.name for path in target.iterdir() if not path.name.startswith(".regard-")}
    for name in (present if own_names is None else present & {*own_names}) - names:
        (target / name).unlink(missing_ok=True)
    remove_folder(staged)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Numbers that change when a folder is replaced; None if there is no folder."""
    try:
        state = folder.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns
