"""Run the native kernels' tests under the address and undefined-behaviour sanitizers.

The libraries are built into a folder of their own, and the sanitizers' runtime goes before all
others, because the Python that loads them was not built with it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1")
TESTS = [
    "decode/test_int8.py",
    "decode/test_matvec.py",
    "test_library.py",
    "observe/test_native.py",
    "observe/test_observed_attention.py",
    "test_pair_sums.py",
    "observe/test_recompute.py",
    "../models/transformer/test_native_decoder.py",
]


def runtime(cxx: str) -> str:
    """The sanitizers' own libraries, for the loader."""
    names = ("libasan.so", "libubsan.so")
    found = [
        subprocess.check_output([cxx, f"-print-file-name={name}"], text=True) for name in names
    ]
    return " ".join(path.strip() for path in found)


def main() -> int:
    sys.path.insert(0, str(ROOT))
    from hatch_build import compile_all, compiler

    with tempfile.TemporaryDirectory() as folder:
        if not compile_all(Path(folder), FLAGS):
            sys.stderr.write("no native kernel could be built with sanitizers\n")
            return 1
        setting = {
            "LD_PRELOAD": runtime(compiler() or "c++"),
            "ASAN_OPTIONS": "detect_leaks=0",
            "REGARD_NATIVE": folder,
            "CI": "true",
        }
        here = [str(Path(__file__).parent / name) for name in TESTS]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *here]
        return subprocess.run(
            [*command, *sys.argv[1:]], env=os.environ | setting, cwd=ROOT, check=False
        ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
