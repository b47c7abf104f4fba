import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import FileError
from regard.files import atomic_file, atomic_folder


def full_disk(*_):
    raise OSError(28, "No space left on device")


def write_half(path, error, **options):
    with atomic_file(path, **options) as temporary:
        temporary.write_text("half")
        raise error


def write_without_disk(path, function, monkeypatch):
    with atomic_file(path, durable=True, advice="; try b") as temporary:
        temporary.write_text("after")
        monkeypatch.setattr(f"regard.files.atomic.os.{function}", full_disk)


def write_half_a_folder(path, **options):
    with atomic_folder(path, **options) as temporary:
        (temporary / "old").write_text("half")
        full_disk()


KILLED = """
import os, sys
from pathlib import Path
from regard.files import atomic_file, atomic_folder

place = Path(sys.argv[1])
file, folder = atomic_file(place / "a.txt"), atomic_folder(place / "b")
file.__enter__().touch()
(folder.__enter__() / "half").touch()
os._exit(9)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_has_its_new_content_only_after_the_block(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with atomic_file(path) as temporary:
        temporary.write_text("after")
        assert path.read_text() == "before"
    assert (path.read_text(), names(tmp_path)) == ("after", ["a.txt"])


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path, error, durable):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with pytest.raises(error):
        write_half(path, error, durable=durable)
    assert (path.read_text(), names(tmp_path)) == ("before", ["a.txt"])


@pytest.mark.parametrize("function", ["fsync", "open"])
def test_a_durable_file_that_does_not_reach_the_disk_is_not_put_in_place(
    tmp_path, monkeypatch, function
):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with pytest.raises(FileError, match=r"cannot write .*a.txt: No space left on device; try b$"):
        write_without_disk(path, function, monkeypatch)
    assert (path.read_text(), names(tmp_path)) == ("before", ["a.txt"])


def test_a_folder_that_cannot_be_synced_does_not_matter(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "regard.files.atomic._sync", lambda path: calls.append(path) or path.read_bytes()
    )
    with atomic_file(tmp_path / "a.txt", durable=True) as temporary:
        temporary.write_text("after")
    assert calls == [temporary, tmp_path]
    assert (tmp_path / "a.txt").read_text() == "after"


@pytest.mark.parametrize("name", ["missing/a.txt", "file/a.txt", "folder"])
def test_a_place_that_cannot_be_written_is_a_file_error(tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with (
        pytest.raises(FileError, match=rf"cannot write .*{name}: \w+"),
        atomic_file(tmp_path / name) as temporary,
    ):
        temporary.write_text("text")
    assert names(tmp_path) == ["file", "folder"]


def test_a_file_error_of_the_block_is_passed_on_as_it_is(tmp_path):
    with pytest.raises(FileError, match=r"^no model there$"), atomic_file(tmp_path / "a.txt"):
        raise FileError("no model there")


def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path):
    path = tmp_path / ("a" * 255)
    with atomic_file(path) as temporary:
        temporary.write_text("text")
    assert path.read_text() == "text"


def test_a_link_stays_a_link_to_the_file_that_is_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with atomic_file(tmp_path / "link") as temporary:
        temporary.write_text("text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"


def test_a_folder_appears_with_all_its_files_and_its_parents(tmp_path):
    path = tmp_path / "runs" / "first"
    with atomic_folder(path) as temporary:
        (temporary / "a").write_text("1")
        (temporary / "b").write_text("2")
        assert not path.exists()
    assert (names(path), names(path.parent)) == (["a", "b"], ["first"])


def test_a_folder_replaces_the_one_before(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").touch()
    with atomic_folder(tmp_path / "run") as temporary:
        (temporary / "new").touch()
    assert names(tmp_path / "run") == ["new"]


@pytest.mark.parametrize("own_names", [None, ["old"]])
def test_an_error_leaves_the_old_folder_and_nothing_else(tmp_path, own_names):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").write_text("before")
    with pytest.raises(OSError, match="No space"):
        write_half_a_folder(tmp_path / "run", own_names=own_names)
    assert (names(tmp_path), names(tmp_path / "run")) == (["run"], ["old"])
    assert (tmp_path / "run" / "old").read_text() == "before"


def test_with_own_names_files_of_others_stay_and_stale_own_files_go(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("notes.txt", "weights", "tokenizer"):
        (folder / name).write_text("before")
    with atomic_folder(folder, own_names=("weights", "tokenizer")) as temporary:
        (temporary / "weights").write_text("after")
    assert names(folder) == ["notes.txt", "weights"]
    assert (folder / "notes.txt").read_text() == "before"
    assert (folder / "weights").read_text() == "after"


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with atomic_folder(tmp_path / "link") as temporary:
        (temporary / "new").touch()
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["new"]


def test_a_folder_in_a_place_where_nothing_can_be_made_is_written_from_inside(
    tmp_path, monkeypatch
):
    folder, make = tmp_path / "model", Path.mkdir
    folder.mkdir()
    (folder / "weights").write_text("before")

    def refuse_in_parent(path, *arguments, **options):
        if path.parent == tmp_path and not options:
            raise PermissionError(13, "Permission denied")
        make(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse_in_parent)
    with atomic_folder(folder, own_names=("weights",)) as temporary:
        (temporary / "weights").write_text("after")
    assert ((folder / "weights").read_text(), names(folder)) == ("after", ["weights"])


def test_a_folder_that_does_not_reach_the_disk_is_not_put_in_place(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.files.atomic._sync", full_disk)
    with pytest.raises(OSError, match="No space"), atomic_folder(tmp_path / "run") as temporary:
        (temporary / "a").touch()
    assert names(tmp_path) == []


def test_what_killed_saves_left_is_removed_by_the_next(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False)
    assert len(names(tmp_path)) == 2
    with atomic_file(tmp_path / "a.txt") as temporary:
        temporary.touch()
    assert names(tmp_path) == ["a.txt"]
