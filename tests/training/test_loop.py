"""The loop: it learns, stops when asked, and goes on bit for bit as if it had never stopped."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import FileError, InputError, NotFiniteError
from regard.training import checkpoints as disk
from regard.training.checkpoints import checkpoints, load_checkpoint
from regard.training.events import Ended, Evaluated, Event, Saved, Started, Stepped
from regard.training.loop import Loop
from training.counting import ALONE, Line, network, plan, trained


def test_the_loss_falls_and_every_step_is_told(tmp_path: Path) -> None:
    told: list[Event] = []
    _, ended = trained(tmp_path, (told.append,), steps=200)
    losses = [event.loss for event in told if isinstance(event, Stepped)]
    assert ended == Ended(200, "done")
    assert len(losses) == 200
    assert sum(losses[-10:]) < 0.1 * sum(losses[:10])


def test_events_come_in_order(tmp_path: Path) -> None:
    told: list[Event] = []
    trained(tmp_path, (told.append,), steps=10)
    kinds = [type(event) for event in told]
    assert kinds == [Started, *[Stepped] * 7, Saved, *[Stepped] * 3, Evaluated, Saved]


@pytest.mark.parametrize("cut", [7, 14, 30])
def test_a_run_that_was_cut_and_gone_on_with_ends_bit_for_bit_the_same(
    tmp_path: Path, cut: int
) -> None:
    whole, _ = trained(tmp_path / "whole")

    def stop(event: Event) -> None:
        if isinstance(event, Saved) and event.step >= cut:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        trained(tmp_path / "cut", (stop,))
    torch.manual_seed(999)  # a new process has chance of its own
    resumed, ended = trained(tmp_path / "cut")
    assert ended.step == 40
    for mine, theirs in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_ends(tmp_path: Path, number: signal.Signals) -> None:
    def send(event: Event) -> None:
        if isinstance(event, Stepped) and event.step == 5:
            os.kill(os.getpid(), number)

    _, ended = trained(tmp_path, (send,))
    assert ended.reason == "interrupted"
    assert checkpoints(tmp_path / "checkpoints")[-1].name == f"step-{ended.step:08d}"
    assert signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL)


def test_time_that_is_up_saves_and_ends(tmp_path: Path) -> None:
    _, ended = trained(tmp_path, minutes=0.0)
    assert ended == Ended(1, "out of time")
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")] == ["step-00000001"]


def test_training_stops_when_scores_no_longer_rise(tmp_path: Path) -> None:
    _, ended = trained(tmp_path, steps=400, rate=1e-12, patience=3, weight_decay=0.0)
    assert ended.reason == "stopped early"
    assert ended.step <= 50


def test_a_loss_that_is_no_number_names_the_step_and_leaves_checkpoints_alone(
    tmp_path: Path,
) -> None:
    loop = Loop(network(), Line(broken_at=9), plan(), tmp_path, ALONE)
    with pytest.raises(NotFiniteError, match="the loss of step 9 is nan"):
        loop.run()
    assert [path.name for path in checkpoints(tmp_path / "checkpoints")] == ["step-00000007"]


def test_a_full_disk_is_told_and_earlier_checkpoints_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write: Any = disk.save_file
    calls: list[Path] = []

    def full(tensors: Any, path: Path) -> None:
        calls.append(path)
        if len(calls) > 4:  # two files of steps 7 and 10, and then those of step 14
            raise OSError(28, "No space left on device")
        write(tensors, path)

    monkeypatch.setattr(disk, "save_file", full)
    with pytest.raises(FileError, match=r"No space left on device.*earlier ones are untouched"):
        trained(tmp_path)
    left = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    assert sorted(left) == ["step-00000007", "step-00000010"]


def test_gradients_of_several_batches_are_those_of_one(tmp_path: Path) -> None:
    losses: list[float] = []
    for number, settings in enumerate(({"accumulate": 3}, {"accumulate": 1})):
        told: list[Event] = []
        trained(tmp_path / str(number), (told.append,), steps=3, **settings)
        first = next(event for event in told if isinstance(event, Stepped))
        losses.append(first.tokens)
    assert losses[0] > 2 * losses[1]


def test_the_newest_and_the_best_checkpoints_are_kept(tmp_path: Path) -> None:
    best: list[int] = []

    def note(event: Event) -> None:
        if isinstance(event, Evaluated) and event.best:
            best.append(event.step)

    trained(tmp_path, (note,), steps=80, keep=2)
    names = {path.name for path in checkpoints(tmp_path / "checkpoints")}
    assert names == {"step-00000080", "step-00000077", f"step-{best[-1]:08d}"}


def test_a_folder_with_more_steps_than_the_recipe_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, steps=20)
    with pytest.raises(InputError, match="holds 20 steps, more than the 10"):
        trained(tmp_path, steps=10)


def test_a_broken_checkpoint_is_named(tmp_path: Path) -> None:
    trained(tmp_path, steps=10)
    newest = checkpoints(tmp_path / "checkpoints")[-1]
    (newest / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(FileError, match=r"cannot read the checkpoint .*step-00000010"):
        load_checkpoint(newest)


def change_state(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the state.json of a checkpoint."""
    state = json.loads((path / "state.json").read_text())
    change(state)
    (path / "state.json").write_text(json.dumps(state))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("place"), r"state\.json lacks place"),
        (lambda state: state.update(step="x"), "expected step to be a whole number, got 'x'"),
        (lambda state: state.update(generators=[0.5]), r"generators\[0\] to be a whole number"),
        (lambda state: state.update(generators=[1, 2]), "cannot read the checkpoint"),
        (lambda state: state["standing"].update(best="x"), r"standing\.best to be a number"),
        (lambda state: state["standing"].update(more=1), "cannot read the checkpoint"),
        (lambda state: state["place"].update(batch=2**64), r"place\.batch to be a whole number"),
        (lambda state: state["place"].update(epoch=-1), "counts steps that no training has"),
        (lambda state: state["standing"].update(step=-5), "counts steps that no training has"),
        (lambda state: state.update(optimizer=[]), "optimizer to be an object, got"),
        (
            lambda state: state["optimizer"]["param_groups"][0].update(amsgrad=True),
            r"param_groups\[0\]\.amsgrad to be one of False, got True",
        ),
        (lambda state: state["optimizer"]["param_groups"][0].update(betas=[]), "two betas"),
    ],
)
def test_wrong_types_in_the_state_of_a_checkpoint_are_named(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    trained(tmp_path, steps=3)
    change_state(checkpoints(tmp_path / "checkpoints")[-1], change)
    with pytest.raises(FileError, match=message):
        trained(tmp_path, steps=5)


def test_a_checkpoint_with_tensors_of_other_shapes_is_refused(tmp_path: Path) -> None:
    trained(tmp_path, steps=3)
    path = checkpoints(tmp_path / "checkpoints")[-1] / "optimizer.safetensors"
    tensors = load_file(path)
    save_file({name: tensor.new_ones(7, 3, 2) for name, tensor in tensors.items()}, path)
    with pytest.raises(FileError, match=r"of the optimiser should be floats of shape"):
        trained(tmp_path, steps=5)
