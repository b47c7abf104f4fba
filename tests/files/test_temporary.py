import os
import subprocess
import sys

import pytest

from regard.files import temporary
from regard.files.temporary import remove_folder, remove_leftovers, temporary_path

DAY = 24 * 60 * 60


def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def name(machine, process):
    return f".regard-{machine}-{process}-0123abcd.part"


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_two_writers_never_get_the_same_name(tmp_path):
    assert len({temporary_path(tmp_path) for _ in range(99)}) == 99


def test_files_and_folders_of_ended_processes_are_removed(tmp_path):
    here = temporary._machine()
    (tmp_path / name(here, ended_process())).touch()
    (tmp_path / name(here, ended_process()).replace("0123", "4567")).mkdir()
    remove_leftovers(tmp_path)
    assert names(tmp_path) == set()


def test_files_of_running_processes_stay_however_old_they_are(tmp_path):
    running = {name(temporary._machine(), process) for process in (os.getpid(), 1)}
    for path in running:
        (tmp_path / path).touch()
        os.utime(tmp_path / path, (0, 0))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == running


@pytest.mark.parametrize("path", [name("00000000", 1), ".regard-0123456789abcdef.part"])
@pytest.mark.parametrize(("age", "stays"), [(DAY - 60, True), (DAY + 60, False)])
def test_files_of_processes_elsewhere_are_removed_after_a_day(tmp_path, path, age, stays):
    (tmp_path / path).touch()
    then = (tmp_path / path).stat().st_mtime - age
    os.utime(tmp_path / path, (then, then))
    remove_leftovers(tmp_path)
    assert names(tmp_path) == ({path} if stays else set())


def test_files_of_users_are_never_removed(tmp_path):
    for path in (".regard-notes", "a.part", ".regardless.part.txt"):
        (tmp_path / path).touch()
        os.utime(tmp_path / path, (0, 0))
    before = names(tmp_path)
    remove_leftovers(tmp_path)
    remove_leftovers(tmp_path / "missing")
    assert names(tmp_path) == before


def test_a_process_of_another_user_is_running(monkeypatch):
    def refuse(process, number):
        raise PermissionError

    monkeypatch.setattr(temporary.os, "kill", refuse)
    assert temporary._is_running(1)


def test_a_folder_has_lost_its_name_before_its_first_file_is_removed(tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a").touch()
    monkeypatch.setattr(temporary.shutil, "rmtree", lambda *_, **__: None)
    remove_folder(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    remove_folder(tmp_path / "run")  # of which nothing is left
