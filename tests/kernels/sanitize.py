"""Run the native kernels under sanitizers; `make sanitize` and `make sanitize-threads`.

Without an option: the kernels' tests and the short kernel fuzz under the address and
undefined-behaviour sanitizers, with every build that this processor runs. The libraries are built
into a folder of their own, and the sanitizers' runtime goes before all others, because the Python
that loads them was not built with it. With `--threads`: `threads.cpp`, a program of its own that
runs the kernels on several threads at once, under the thread sanitizer.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
THREAD_FLAGS = ("-std=c++17", "-fsanitize=thread", "-g", "-O1", "-pthread", "-Wno-psabi")
# Every kernel with random calls; the builds differ in their vectors alone.
TESTS_OF_EVERY_BUILD = ["../fuzz/test_kernels.py", "decode", "test_pair_sums.py"]
TESTS_OF_THE_FASTEST = [
    *TESTS_OF_EVERY_BUILD,
    "test_library.py",
    "test_memory.py",
    "observe/test_native.py",
    "observe/test_observed_attention.py",
    "observe/test_recompute.py",
    "../models/transformer/test_native_decoder.py",
]


def main() -> int:
    """Run what the command line asks for; not 0 if a sanitizer or a test found something."""
    sys.path.insert(0, str(ROOT))
    import hatch_build

    compiler = hatch_build.compiler()
    if compiler is None:
        sys.stderr.write("no C++ compiler was found\n")
        return 1
    if "--threads" in sys.argv:
        return run_threads(compiler, hatch_build.builds())
    with tempfile.TemporaryDirectory() as folder:
        built = hatch_build.compile_all(Path(folder), FLAGS)
        usable = [path for path in built if is_usable(path.stem.removeprefix("_native_"))]
        codes = [run_tests(compiler, path, first=path == usable[0]) for path in usable]
    return max(codes, default=1)


def is_usable(build: str) -> bool:
    """True if this processor runs the build."""
    import torch

    from regard.kernels.library import BUILDS

    capability = torch.backends.cpu.get_cpu_capability().lower()
    return build in BUILDS[BUILDS.index(capability) if capability in BUILDS else -1 :]


def run_tests(compiler: str, library: Path, *, first: bool) -> int:
    """Run tests with one library, alone in a folder; the first build, the fastest, has most."""
    sys.stdout.write(f"{library.name}\n")
    sys.stdout.flush()
    folder = library.parent / library.stem
    folder.mkdir()
    library.rename(folder / library.name)
    setting = {
        "LD_PRELOAD": sanitizer_runtime(compiler),
        "ASAN_OPTIONS": "detect_leaks=0",
        "REGARD_NATIVE": str(folder),
        "CI": "true",
    }
    tests = TESTS_OF_THE_FASTEST if first else TESTS_OF_EVERY_BUILD
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [str((HERE / name).resolve()) for name in tests] + sys.argv[1:]
    return subprocess.run(command, env=os.environ | setting, cwd=ROOT, check=False).returncode


def sanitizer_runtime(compiler: str) -> str:
    """The sanitizers' own libraries, for the loader."""
    names = ("libasan.so", "libubsan.so")
    paths = [
        subprocess.check_output([compiler, f"-print-file-name={name}"], text=True) for name in names
    ]
    return " ".join(path.strip() for path in paths)


def run_threads(compiler: str, builds: dict[str, list[str]]) -> int:
    """Build and run the program of threads, with the flags of the fastest usable build."""
    flags = next(flags for name, flags in builds.items() if is_usable(name))
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "threads")
        command = [compiler, *THREAD_FLAGS, *flags, str(HERE / "threads.cpp"), "-o", program]
        subprocess.run(command, check=True)
        setting = {"TSAN_OPTIONS": "halt_on_error=0 exitcode=66"}
        # -R fixes the layout of addresses: random ones may lie where the sanitizer expects none.
        fixed = ["setarch", os.uname().machine, "-R"]
        return subprocess.run([*fixed, program], env=os.environ | setting, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
