"""Watching models that two processes share; both run all scenarios, because starting is slow."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from tracing.distributed.scenarios import SCENARIOS

TESTS = Path(__file__).parents[1]
SCRIPT = TESTS / "tracing" / "distributed" / "scenarios.py"


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """The errors of both processes by scenario; empty texts where there was none."""
    folder = tmp_path_factory.mktemp("processes")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    settings = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COVERAGE_CORE": ""}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(store.port), str(folder)], env=settings
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            process.wait(timeout=600)  # a busy machine takes its time
    finally:
        for process in processes:
            process.kill()
    return [json.loads((folder / f"errors-{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("name", [scenario.__name__ for scenario in SCENARIOS])
def test_in_two_processes(errors, name):
    for process_errors in errors:
        assert process_errors[name] == ""
