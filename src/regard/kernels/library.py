"""Finds and loads the compiled library that fits this processor, and gives it torch's threads."""

import ctypes
import os
import warnings
from functools import cache
from pathlib import Path

import torch

from regard.kernels.layout import LAYOUT

# The builds of the one source, the fastest first. A processor runs the build of its own capability
# and all that follow.
BUILDS = ("avx512", "avx2", "plain")


def native_enabled() -> bool:
    """False if REGARD_NATIVE=0 disables native code; another value is a folder to load it from."""
    return os.environ.get("REGARD_NATIVE") != "0"


@cache
def library() -> ctypes.CDLL | None:
    """The fastest compiled library that this processor runs; None if none is built."""
    capability = torch.backends.cpu.get_cpu_capability().lower()
    usable = BUILDS[BUILDS.index(capability) :] if capability in BUILDS else BUILDS[-1:]
    folder = Path(os.environ.get("REGARD_NATIVE") or Path(__file__).parent)
    for build in usable:
        loaded = load(folder / f"_native_{build}.so")
        if loaded is not None:
            return loaded
    return None


def load(path: Path) -> ctypes.CDLL | None:
    """The library at this path, ready to be called; None if it is missing or of another layout."""
    if not path.exists():
        return None
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.regard_layout.restype = ctypes.c_int64
        if loaded.regard_layout() != LAYOUT:
            return None
    except (OSError, AttributeError):
        return None
    loaded.regard_share_threads.argtypes = [ctypes.c_void_p]
    loaded.regard_share_threads(_address_of_gomp_parallel())
    return loaded


@cache
def warn_missing() -> None:
    """Warn, once per process, that the slower implementation is used because none is compiled."""
    warnings.warn(
        "regard's native kernels are not built, so the slower portable ones are used; "
        "install a C++ compiler and reinstall regard to get them, or set REGARD_NATIVE=0 "
        "to choose the portable ones",
        stacklevel=5,
    )


def _address_of_gomp_parallel() -> int | None:
    """The address of GOMP_parallel in the OpenMP runtime that torch has loaded; None without one.

    The library runs its tasks through it: a second pool of threads would compete for the cores.
    """
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    for path in sorted({line.split()[-1] for line in lines if "libgomp" in line}):
        function = getattr(ctypes.CDLL(path), "GOMP_parallel", None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None
