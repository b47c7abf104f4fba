"""Test the oldest versions that pyproject.toml allows, in an environment of their own.

Run: python tools/oldest.py (the Python that runs it is the one that is tested)

The environment is build/oldest/pythonX.Y; the versions are those of constraints-oldest.txt. Where
the registry has torch for this Python only with several GB of CUDA libraries, torch is left out,
and the files are compiled and the tests run that do without it.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = "constraints-oldest.txt"
EXTRAS = "test,tensorboard,survey"
# Tests of every place that calls a dependency other than torch.
TESTS = [
    "tests/attribution/test_flow.py",
    "tests/attribution/test_gradients.py",
    "tests/cli",
    "tests/loading",
    "tests/models/checkpoints",
    "tests/models/generation/test_networks.py",
    "tests/models/generation/test_peers.py",
    "tests/models/generation/test_settings.py",
    "tests/models/tokenizers",
    "tests/packaging/test_oldest.py",
    "tests/project/test_surface.py",
    "tests/storage",
    "tests/studies/survey/test_files.py",
    "tests/studies/test_strangers.py",
    "tests/tracing",
    "tests/training/test_logs.py",
    "tests/types",
    "tests/views/figure",
    "tests/views/kinds",
    "tests/views/terminal",
    "tests/views/test_notebook.py",
]
# Tests that need no torch; conftest.py does, so it is left out.
TESTS_WITHOUT_TORCH = [
    "tests/cli/printing/test_number_tables.py",
    "tests/cli/test_inputs.py",
    "tests/cli/test_lazy.py",
    "tests/cli/test_output.py",
    "tests/cli/test_progress.py",
    "tests/project/test_imports.py",
    "tests/recipes/test_prepare.py",
    "tests/test_configs.py",
    "tests/files",
    "tests/test_unicode.py",
    "tests/text",
    "tests/training/test_batches.py",
    "tests/training/test_corpora.py",
    "tests/training/test_corpus_file.py",
    "tests/training/test_schedules.py",
    "tests/views/test_colours.py",
    "tests/views/test_table.py",
    "tests/views/test_wrapping.py",
]
# Old packages call what newer ones below them deprecate; that is not what is tested here.
PYTEST = ["-q", "-m", "not slow"]
PYTEST += ["-W", "default::DeprecationWarning", "-W", "default::FutureWarning"]
# The page of the commands shows the help as the usual version of click prints it.
PYTEST += ["--ignore", "tests/cli/test_help_in_docs.py"]
# Checking shapes is ten times slower with the oldest jaxtyping, and `make test` does it.
ENVIRONMENT = {"REGARD_CHECK_SHAPES": "0"}
COMPILED = ["src", "tests", "tools", "bench", "recipes", "notebooks", "hatch_build.py"]


def run(*command: str | Path) -> None:
    """Run a command in the project's folder; end with its exit code if it fails."""
    done = subprocess.run(  # noqa: S603
        [str(word) for word in command], cwd=ROOT, env=os.environ | ENVIRONMENT, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)


def install(python: Path, *words: str) -> None:
    """Install with pip, by the constraints."""
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "-c", CONSTRAINTS, *words)


def make_environment() -> Path:
    """The Python of the environment, which is made if it is missing."""
    folder = ROOT / "build" / "oldest" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def needs_cuda(report: str) -> bool:
    """True if pip's report of an installation names libraries of CUDA."""
    names = [item["metadata"]["name"].lower() for item in json.loads(report)["install"]]
    return any(name.startswith(("nvidia", "cuda")) for name in names)


def torch_is_small(python: Path) -> bool:
    """True if torch can be installed for this Python without the libraries of CUDA."""
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    options = ["--dry-run", "--ignore-installed", "--report", "-", "-c", CONSTRAINTS, "torch"]
    done = subprocess.run(  # noqa: S603
        [*pip, *options], cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True
    )
    return done.returncode == 0 and not needs_cuda(done.stdout)


def dependencies_without_torch() -> list[str]:
    """The dependencies of pyproject.toml but torch, and what runs tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = [line for line in project["dependencies"] if not line.startswith("torch")]
    return [*needed, "pytest", "hypothesis"]


def print_versions(python: Path) -> None:
    """Print the installed version of every package that the constraints name."""
    lines = (ROOT / CONSTRAINTS).read_text("utf-8").splitlines()
    names = sorted({match[0] for line in lines if (match := re.match(r"[a-z][\w-]*", line))})
    code = (
        "import importlib.metadata as metadata, platform, sys\n"
        "print('Python', platform.python_version())\n"
        "installed = {each.metadata['Name'].lower().replace('_', '-'): each.version"
        " for each in metadata.distributions()}\n"
        "for name in sys.argv[1:]: print(name, installed.get(name, 'not installed'))"
    )
    run(python, "-c", code, *names)


def test_with_torch(python: Path) -> None:
    """Install everything and run the tests of every dependency."""
    install(python, "-e", f".[{EXTRAS}]")
    print_versions(python)
    run(python, "-m", "pytest", *PYTEST, *TESTS)


def test_without_torch(python: Path) -> None:
    """Compile every file, warnings being errors, and run the tests that need no torch."""
    sys.stdout.write("torch is left out: for this Python it comes with libraries of CUDA only\n")
    sys.stdout.flush()
    install(python, *dependencies_without_torch())
    install(python, "--no-deps", "-e", ".")
    print_versions(python)
    run(python, "-W", "error", "-m", "compileall", "-q", "-f", *COMPILED)
    run(python, "-W", "error", "-m", "regard", "--help")
    run(python, "-m", "pytest", *PYTEST, "--noconftest", *TESTS_WITHOUT_TORCH)


def main() -> None:
    """Make the environment and test in it."""
    python = make_environment()
    test = test_with_torch if torch_is_small(python) else test_without_torch
    test(python)


if __name__ == "__main__":
    main()
