import errno
from contextlib import nullcontext
from pathlib import Path

import pytest

from regard.errors import FileError
from regard.files import atomic_folder, finish_replacement, read_unchanged_folder, replacement

OWN = ("config", "weights", "tokenizer")


def write(folder, text, names=OWN[:2]):
    with atomic_folder(folder, own_names=OWN) as temporary:
        for name in names:
            (temporary / name).write_text(text)


def content(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "model", "old", OWN)
    (tmp_path / "model" / "README.md").write_text("mine")
    return tmp_path / "model"


@pytest.fixture
def no_exchange(monkeypatch):
    monkeypatch.setattr(replacement, "_exchange_names", lambda first, second: False)


NEW = {"config": "new", "weights": "new", "README.md": "mine"}


def test_a_reader_finds_the_old_folder_or_the_new_one_and_nothing_between(folder, monkeypatch):
    states, exchange = [], replacement._exchange_names

    def watched(first, second):
        states.append(content(folder))
        assert exchange(first, second)
        states.append(content(folder))
        return True

    monkeypatch.setattr(replacement, "_exchange_names", watched)
    old = content(folder)
    write(folder, "new")
    assert states == [old, NEW]
    assert (content(folder), [path.name for path in folder.parent.iterdir()]) == (NEW, ["model"])


def test_files_of_the_user_keep_their_identity_and_folders_their_links(folder):
    (folder / "notes").mkdir()
    (folder / "notes" / "a").write_text("a")
    (folder / "notes" / "link").symlink_to("missing")
    before = (folder / "README.md").stat().st_ino
    write(folder, "new")
    assert (folder / "README.md").stat().st_ino == before
    assert (folder / "notes" / "a").read_text() == "a"
    assert (folder / "notes" / "link").readlink() == Path("missing")


def test_a_file_system_without_links_gets_copies(folder, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    monkeypatch.setattr(replacement.os, "link", refuse)
    write(folder, "new")
    assert content(folder) == NEW


def test_a_file_that_a_user_adds_while_the_folder_is_replaced_is_kept(folder, monkeypatch):
    exchange = replacement._exchange_names

    def add_and_exchange(first, second):
        (folder / "late").write_text("late")
        return exchange(first, second)

    monkeypatch.setattr(replacement, "_exchange_names", add_and_exchange)
    write(folder, "new")
    assert content(folder) == NEW | {"late": "late"}


def test_the_mode_of_a_folder_is_kept(folder):
    folder.chmod(0o2750)
    write(folder, "new")
    assert folder.stat().st_mode & 0o7777 == 0o2750


def test_without_exchange_two_renames_leave_nothing_behind(folder, no_exchange):
    replacement._set_aside_path(folder).mkdir()  # of a process that was killed at the very end
    write(folder, "new")
    assert (content(folder), [path.name for path in folder.parent.iterdir()]) == (NEW, ["model"])


def test_a_kill_between_two_renames_is_repaired_by_the_next_reader(folder):
    old = content(folder)
    folder.rename(replacement._set_aside_path(folder))
    finish_replacement(folder, OWN)
    assert (content(folder), [path.name for path in folder.parent.iterdir()]) == (old, ["model"])


def test_a_rename_that_fails_puts_the_old_folder_back(folder, no_exchange, monkeypatch):
    rename, old = Path.rename, content(folder)

    def refuse(path, target):
        if target == folder and path.name.endswith(".part"):
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="Input/output"):
        write(folder, "new")
    assert (content(folder), [path.name for path in folder.parent.iterdir()]) == (old, ["model"])


def test_a_folder_that_appears_meanwhile_is_replaced(tmp_path, monkeypatch):
    target, calls, exists = tmp_path / "model", [], Path.exists

    def blind_at_first(path, **options):
        calls.append(path == target)
        return exists(path, **options) and calls.count(True) != 2

    with atomic_folder(target, own_names=OWN) as temporary:
        (temporary / "config").write_text("new")
        write(target, "other")
        calls.append(True)
        monkeypatch.setattr(Path, "exists", blind_at_first)
    monkeypatch.undo()
    assert content(target) == {"config": "new"}


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EACCES])
def test_a_folder_that_cannot_be_renamed_is_replaced_from_inside(folder, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, "no")

    identity = folder.stat().st_ino
    monkeypatch.setattr(replacement, "_exchange_names", refuse)
    write(folder, "new")
    assert (content(folder), folder.stat().st_ino) == (NEW, identity)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_the_working_directory_stays_the_same_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    write(Path(), "new")
    assert content(Path()) == NEW


def test_a_mount_point_is_written_from_inside(folder, monkeypatch):
    monkeypatch.setattr(replacement, "_mount_points", lambda target: [target / "cache"])
    identity = folder.stat().st_ino
    write(folder, "new")
    assert (content(folder), folder.stat().st_ino) == (NEW, identity)


def test_mount_points_are_those_of_the_system(monkeypatch):
    assert Path("/") in replacement._mount_points(Path("/somewhere"))
    text = "1 2 0:3 / /my\\040models rw - tmpfs tmpfs rw\n"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
    assert replacement._mount_points(Path("/somewhere")) == [Path("/my models")]


def test_where_mounts_are_not_listed_the_folder_itself_is_asked(monkeypatch):
    def refuse(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", refuse)
    assert replacement._mount_points(Path("/")) == [Path("/")]
    assert replacement._mount_points(Path("/usr/bin")) == []


@pytest.mark.parametrize("done", range(4))
def test_a_kill_while_files_take_their_places_inside_is_finished_by_the_next_reader(
    folder, monkeypatch, done
):
    class KilledError(BaseException):
        pass

    calls, replace = [], Path.replace

    def replace_until_killed(path, target):
        calls.append(path)
        if len(calls) > done:
            raise KilledError
        return replace(path, target)

    monkeypatch.chdir(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace_until_killed)
        with pytest.raises(KilledError) if done < 2 else nullcontext():
            write(folder, "new")
    finish_replacement(folder, OWN)
    left = {name: text for name, text in content(folder).items() if not name.endswith(".part")}
    assert left == NEW
    assert not (folder / ".regard-new").exists()


def test_a_reader_that_may_not_finish_a_save_is_told(folder, monkeypatch):
    (folder / ".regard-new").mkdir()
    (folder / ".regard-new" / "config").write_text("new")

    def refuse(path, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(FileError, match=r"was interrupted and cannot be finished \(Permission den"):
        finish_replacement(folder, OWN)


def test_two_processes_may_finish_at_once(folder, monkeypatch):
    (folder / ".regard-new").mkdir()
    (folder / ".regard-new" / "config").write_text("new")

    def vanish(source, target):
        raise FileNotFoundError

    monkeypatch.setattr(replacement, "_link_file", vanish)
    finish_replacement(folder, OWN)


def test_a_reader_reads_again_when_the_folder_was_replaced_meanwhile(folder):
    texts = []

    def read():
        config = (folder / "config").read_text()
        if not texts:
            write(folder, "new")
        texts.append((config, (folder / "weights").read_text()))
        return texts[-1]

    assert read_unchanged_folder(folder, read) == ("new", "new")
    assert texts[0] == ("old", "new")


def test_an_error_of_a_reader_counts_only_if_the_folder_stayed(folder):
    calls = []

    def read():
        calls.append(1)
        if len(calls) == 1:
            write(folder, "new")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        read_unchanged_folder(folder, read)
    assert len(calls) == 2


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_the_system_says_whether_names_can_be_exchanged(tmp_path, monkeypatch, system):
    class Library:
        @staticmethod
        def fail(*_):
            replacement.ctypes.set_errno(errno.EINVAL)
            return -1

        renameat2 = renamex_np = fail

    monkeypatch.setattr(replacement.ctypes, "CDLL", lambda *_, **__: Library)
    monkeypatch.setattr(replacement.sys, "platform", system)
    assert not replacement._exchange_names(tmp_path / "a", tmp_path / "b")


def test_another_error_of_the_exchange_is_raised(tmp_path):
    with pytest.raises(FileNotFoundError):
        replacement._exchange_names(tmp_path / "a", tmp_path / "b")
