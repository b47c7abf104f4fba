"""Compile the native kernels when the package is built, if a C++ compiler is there.

Without one, or if it fails, the package is whole all the same: the portable kernels take over.
Run as a script, it compiles them in place and says what it built.
"""

import os
import platform
import secrets
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface as Hook
except ImportError:  # as a script, no builder is needed
    Hook = object

KERNELS = Path(__file__).parent / "src" / "regard" / "kernels"
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-shared", "-pthread", "-fno-math-errno"]
FLAGS += ["-fno-trapping-math", "-ffp-contract=fast", "-Wno-psabi"]
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl"]


def compiler() -> str | None:
    """The C++ compiler: CXX if set, else the first that is found."""
    chosen = os.environ.get("CXX")
    names = [chosen] if chosen else ["c++", "g++", "clang++"]
    return next((path for name in names if (path := shutil.which(name))), None)


def builds() -> dict[str, list[str]]:
    """The builds of this kind of machine by name, each with its flags."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return {"avx512": AVX512, "avx2": AVX2, "plain": []}
    return {"plain": []}


def compile_all(folder: Path = KERNELS, extra: tuple[str, ...] = ()) -> list[Path]:
    """The libraries that could be compiled into the folder, with extra flags if any."""
    cxx = compiler()
    if cxx is None or os.name == "nt":
        return []
    built = []
    for name, flags in builds().items():
        target = folder / f"_native_{name}.so"
        _remove_old_parts(target)
        partial = target.with_suffix(f".{secrets.token_hex(8)}.part")
        source = KERNELS / "cpp" / "native.cpp"
        command = [cxx, *FLAGS, *flags, *extra, str(source), "-o", str(partial)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode == 0:
            # A library that a running process has open must not be written over.
            partial.replace(target)
            built.append(target)
        else:
            partial.unlink(missing_ok=True)
            sys.stderr.write(f"regard: {target.name} was not built\n{done.stderr}\n")
    return built


def _remove_old_parts(target: Path) -> None:
    """Remove what builds that were killed left; none takes an hour."""
    for path in target.parent.glob(f"{target.stem}.*.part"):
        try:
            if time.time() - path.stat().st_mtime > 3600:
                path.unlink()
        except OSError:  # another build was quicker
            continue


def wheel_tag() -> str:
    """Which machines a wheel with libraries is for: any Python 3, none of which is linked."""
    place = sysconfig.get_platform()
    # a Python for two kinds of Macs compiles for the one that it runs on
    place = place.replace("universal2", platform.machine())
    return f"py3-none-{place.replace('-', '_').replace('.', '_')}"


class CustomBuildHook(Hook):  # type: ignore[misc, valid-type]
    """Adds the libraries to a wheel, and writes them beside their sources for an editable one."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are gathered."""
        if self.target_name != "wheel":
            return
        built = compile_all()
        if built:
            build_data["artifacts"] += [f"src/regard/kernels/{path.name}" for path in built]
            build_data["pure_python"] = False
            build_data["tag"] = wheel_tag()


if __name__ == "__main__":
    libraries = compile_all(extra=tuple(sys.argv[1:]))
    sys.stdout.write("".join(f"{path}\n" for path in libraries) or "no C++ compiler was found\n")
