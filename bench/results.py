"""RESULTS.md: a section for each table between markers, so that one can be measured again alone."""

import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from bench.measure import Effort, Row, Table, markdown

RESULTS = Path(__file__).with_name("RESULTS.md")

_PACKAGES = ("torch", "x-transformers", "local-attention", "keras")
_HEAD = """# Benchmark results

Written by `make bench`; the command under each title measures that section again. The contenders
run in turns in one process, and a time is the minimum of many rounds; `median` is the median of
the ratios of single rounds. A ratio is ours / peer where the target is ≤, and peer / ours where
it is ≥. Memory is what a contender adds at its peak in a fresh process. Unless a title says
otherwise: batch 1, 8 heads of width 64 (one head for the additive score), float32, no GPU. Before
they are timed, contenders are checked to give the same result.
"""


def section(name: str, table: Table, rows: Sequence[Row], effort: Effort) -> str:
    """A table with what made it."""
    threads = torch.get_num_threads()
    flags = f"{' --quick' if effort.quick else ''} --threads {threads}"
    today = datetime.now(UTC).date().isoformat()
    made = f"`python -m bench {name}{flags}`, {today}; {_machine()}; {_versions()}"
    return f"## {table.title}\n\n{made}\n\n{markdown(rows)}\n"


def keep(name: str, text: str) -> None:
    """Put the section in its place in RESULTS.md, or at the end."""
    start, end = f"<!-- table {name} -->", f"<!-- end {name} -->"
    whole = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else _HEAD
    before, found, rest = whole.partition(start)
    after = rest.partition(end)[2] if found else "\n"
    joined = f"{before.rstrip()}\n\n{start}\n{text}{end}{after}"
    RESULTS.write_text(joined, encoding="utf-8")


def _machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = [line.partition(":") for line in lines]
    cores = sum(name.strip() == "processor" for name, _, _ in fields)
    models = [value.strip() for name, _, value in fields if name.strip() == "model name"]
    return f"{models[0] if models else platform.machine()}, {cores} cores"


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in _PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
