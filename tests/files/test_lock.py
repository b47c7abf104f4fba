import errno
import os
import signal
import subprocess
import sys

import pytest

from regard.errors import FileError
from regard.files import exclusive_lock, lock

HOLDING = """
import sys, time
from pathlib import Path
from regard.files import exclusive_lock

with exclusive_lock(Path(sys.argv[1]), "working", ""):
    print("held", flush=True)
    time.sleep(99)
"""


@pytest.fixture
def holder(tmp_path):
    command = [sys.executable, "-c", HOLDING, tmp_path / "lock"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def acquire(folder):
    with exclusive_lock(folder / "lock", "training in run", "wait for it"):
        return (folder / "lock").read_text()


def test_a_lock_that_another_process_holds_is_refused_with_its_number(tmp_path, holder):
    message = rf"^process {holder.pid} on .* is training in run; wait for it$"
    with pytest.raises(FileError, match=message):
        acquire(tmp_path)


def test_a_killed_process_holds_no_lock(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "lock").exists()
    assert acquire(tmp_path).startswith(f"process {os.getpid()} on ")
    assert not (tmp_path / "lock").exists()


def test_one_process_cannot_hold_a_lock_twice(tmp_path):
    with exclusive_lock(tmp_path / "lock", "", ""), pytest.raises(FileError, match="is training"):
        acquire(tmp_path)


def test_a_file_that_was_removed_while_it_was_locked_is_made_again(tmp_path, monkeypatch):
    take, calls = lock._lock, []

    def remove_first(descriptor):
        calls.append(descriptor)
        if len(calls) == 1:
            (tmp_path / "lock").unlink()
        return take(descriptor)

    monkeypatch.setattr(lock, "_lock", remove_first)
    assert acquire(tmp_path)
    assert len(calls) == 2


def test_a_file_system_without_locks_is_used_without_them(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock._unix, "flock", refuse)
    assert acquire(tmp_path)


def test_a_place_without_room_for_the_lock_is_named(tmp_path):
    with pytest.raises(FileError, match=r"cannot write .*gone.*lock: No such file or directory"):
        acquire(tmp_path / "gone")


def test_windows_locks_a_byte_beyond_the_end(tmp_path, monkeypatch):
    calls = []

    class Windows:
        LK_NBLCK = 2

        @staticmethod
        def locking(descriptor, mode, count):
            calls.append((os.lseek(descriptor, 0, os.SEEK_CUR), mode, count))

    monkeypatch.setattr(lock, "_unix", None)
    monkeypatch.setitem(sys.modules, "msvcrt", Windows)
    assert acquire(tmp_path).startswith("process")
    assert calls == [(1 << 30, 2, 1)]
