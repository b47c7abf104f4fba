"""Finding and loading the native library that fits this processor and torch's threads."""

import ctypes
import os
import warnings
from functools import cache
from pathlib import Path

import torch

from regard.kernels.layout import LAYOUT

# Builds of one source, the fastest first; a processor runs those from its own capability on.
BUILDS = ("avx512", "avx2", "plain")


def native_enabled() -> bool:
    """Whether the native kernels are to be used where they are built; REGARD_NATIVE=0 says no.

    Any other value of REGARD_NATIVE is a folder to take them from.
    """
    return os.environ.get("REGARD_NATIVE") != "0"


@cache
def library() -> ctypes.CDLL | None:
    """The native kernels, or None if they are not built."""
    capability = torch.backends.cpu.get_cpu_capability().lower()
    usable = BUILDS[BUILDS.index(capability) :] if capability in BUILDS else BUILDS[-1:]
    folder = Path(os.environ.get("REGARD_NATIVE") or Path(__file__).parent)
    for build in usable:
        loaded = load(folder / f"_native_{build}.so")
        if loaded is not None:
            return loaded
    return None


def load(path: Path) -> ctypes.CDLL | None:
    """The library at this path, ready to be called; None if it is missing or of another version."""
    if not path.exists():
        return None
    try:
        found = ctypes.CDLL(str(path))
        found.regard_layout.restype = ctypes.c_int64
        if found.regard_layout() != LAYOUT:
            return None
    except (OSError, AttributeError):
        return None
    found.regard_share_threads.argtypes = [ctypes.c_void_p]
    found.regard_share_threads(_parallel_of_torch())
    return found


@cache
def notice_missing() -> None:
    """Say once that the slower kernel is used because the fast one is not there."""
    warnings.warn(
        "regard's native kernels are not built, so the slower portable ones are used; "
        "install a C++ compiler and reinstall regard to get them, or set REGARD_NATIVE=0 "
        "to choose the portable ones",
        stacklevel=4,
    )


def _parallel_of_torch() -> int | None:
    """The address of GOMP_parallel in the OpenMP runtime that torch has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    for path in sorted({line.split()[-1] for line in lines if "libgomp" in line}):
        function = getattr(ctypes.CDLL(path), "GOMP_parallel", None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None
