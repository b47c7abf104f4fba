"""Two processes learn what one does; when one dies the other ends, and one alone goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from process_groups import run_with_children
from regard.errors import FileError, RegardError
from regard.training import distribution
from regard.training.checkpoints import checkpoints
from regard.training.distribution import World, process_group, scatter_state

TESTS = Path(__file__).parents[1]


def run(
    folder: Path, processes: int, sharing: str = "ddp", steps: int = 20, dying: int = 0
) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    script = [str(TESTS / "training/processes.py"), str(folder), sharing, str(steps), str(dying)]
    start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    if dying:
        # torchrun ends the other processes as soon as it sees one die; on a busy machine that may
        # be before they have printed why they stop
        start.append("--monitor-interval=5")
    command = [sys.executable, *(start if processes > 1 else []), *script]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    settings = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COVERAGE_CORE": ""}
    return run_with_children(command, settings)


def losses(folder: Path) -> list[float]:
    found: list[float] = json.loads((folder / "losses.json").read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["ddp", "fsdp"])
def test_two_processes_have_the_losses_of_one(tmp_path: Path, sharing: str) -> None:
    for processes in (1, 2):
        done = run(tmp_path / str(processes), processes, sharing)
        assert done.returncode == 0, done.stderr
    assert losses(tmp_path / "2") == pytest.approx(losses(tmp_path / "1"), rel=1e-4)


@pytest.mark.slow
def test_when_one_process_dies_the_others_end_and_one_alone_goes_on(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert run(whole, 1).returncode == 0
    ended = run(cut, 2, dying=12)
    assert ended.returncode != 0
    assert "another of the 2 processes has ended; run again" in ended.stderr
    assert "to go on from step 7" in ended.stderr
    assert checkpoints(cut / "checkpoints")[-1].name == "step-00000007"
    again = run(cut, 1)
    assert again.returncode == 0, again.stderr
    assert losses(cut) == pytest.approx(losses(whole)[7:], rel=1e-4)


def test_without_torchrun_there_is_one_process() -> None:
    with process_group("cpu") as ranks:
        assert ranks == World(0, 1, ranks.device)
        assert ranks.sum(3.0, 5.0) == [3.0, 5.0]
        assert ranks.any(True)
        assert not ranks.any(False)


def test_an_error_of_the_first_process_is_raised_in_it() -> None:
    with (
        pytest.raises(FileError, match="full"),
        World(0, 1, torch.device("cpu")).failing_together(),
    ):
        raise FileError("full")


def test_an_error_of_the_first_process_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "any", lambda ranks, here: True)
    second = World(1, 2, torch.device("cpu"))
    with pytest.raises(RegardError, match="the first process has ended"), second.failing_together():
        pass


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_process_gives_the_weights_that_all_load(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Any] = []
    for name in ("set_model_state_dict", "set_optimizer_state_dict"):
        monkeypatch.setattr(distribution, name, lambda *args, options: loaded.append(args[-1]))
    monkeypatch.setattr(distribution.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(distribution.dist, "get_rank", lambda: rank)
    module = nn.Linear(2, 3)
    scatter_state(module, torch.optim.SGD(module.parameters()), {"a": 1}, {"b": 2})
    assert loaded == ([{}, {}] if rank else [{"a": 1}, {"b": 2}])
