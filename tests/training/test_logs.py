"""What happens is written down: for TensorBoard too, where it is installed."""

import sys
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from regard.errors import FileError, RegardError
from regard.training.events import Ended, Evaluated, Stepped
from regard.training.logs import JsonLines, TensorBoard

STEP = Stepped(7, 2.5, 99, 0.01, 1e-3, 0.7, 0.1)


class Writer:
    """Remembers what it is told to write."""

    def __init__(self, folder: str) -> None:
        self.folder, self.scalars, self.closed = folder, dict[str, tuple[float, int]](), False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars[name] = (value, step)

    def close(self) -> None:
        self.closed = True


def test_steps_and_scores_are_written_for_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    log = TensorBoard(tmp_path)
    for event in (STEP, Evaluated(7, {"bleu": 31.0}), Ended(7, "done")):
        log(event)
    assert log.writer.scalars["train/loss"] == (2.5, 7)
    assert log.writer.scalars["dev/bleu"] == (31.0, 7)
    assert log.writer.closed


def test_without_it_a_sentence_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[tensorboard\]'"):
        TensorBoard(tmp_path)


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own
def test_real_files_are_written(tmp_path: Path) -> None:
    log = TensorBoard(tmp_path)
    log(STEP)
    log(Ended(7, "done"))
    assert next(path.name for path in tmp_path.iterdir()).startswith("events.out")


def test_a_full_disk_is_told_and_no_half_line_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, calls = JsonLines(tmp_path / "log.jsonl"), []
    log(STEP)
    before = log.path.read_text()

    class FullDisk(FileIO):
        def write(self, data: bytes) -> int:
            calls.append(data)
            if len(calls) > 1:
                raise OSError(28, "No space left on device")
            return super().write(data[:9])

    monkeypatch.setattr(Path, "open", lambda path, *_, **__: FullDisk(path, "ab"))
    with pytest.raises(FileError, match=r"cannot write .*log.jsonl: No space left.*; make room"):
        log(STEP)
    monkeypatch.undo()
    assert log.path.read_text() == before
