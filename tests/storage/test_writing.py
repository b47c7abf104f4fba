import errno

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.errors import FileError, InputError
from regard.storage import load_trace, save_trace, writing
from regard.storage.reading import read_tree
from regard.types import Tokens, Trace
from storage.sameness import assert_same
from traces import a_trace


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def interrupted(*_):
    raise KeyboardInterrupt


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "a.trace"
    save_trace(Trace.from_weights(torch.eye(3), list("abc")), path)
    return path


@pytest.mark.parametrize("where", ["storage.writing._write_tensor", "files.atomic.os.fsync"])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(old, monkeypatch, where):
    before = old.read_bytes()
    monkeypatch.setattr(f"regard.{where}", full)
    with pytest.raises(FileError, match=r"cannot write .*a.trace: No space left on device; what"):
        save_trace(a_trace(), old)
    assert [*old.parent.iterdir()] == [old]
    assert old.read_bytes() == before


def test_an_interrupt_leaves_the_old_file_and_nothing_else(old, monkeypatch):
    before = old.read_bytes()
    monkeypatch.setattr(writing, "_write_tensor", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_trace(a_trace(), old)
    assert [*old.parent.iterdir()] == [old]
    assert old.read_bytes() == before


def test_a_trace_can_be_written_over_the_file_it_is_read_from(old, monkeypatch):
    monkeypatch.setattr("regard.storage.reading.MAX_WHOLE_FILE", 0)
    save_trace(a_trace(), old)
    first = load_trace(old)
    save_trace(first, old)
    assert_same(load_trace(old), first)


def test_a_link_stays_a_link(old):
    link = old.parent / "link"
    link.symlink_to(old)
    save_trace(a_trace(), link)
    assert link.is_symlink()
    assert len(load_trace(old)) == 3


def test_a_new_file_may_be_read_by_whom_the_user_lets(tmp_path):
    (tmp_path / "plain").touch()
    save_trace(a_trace(), tmp_path / "a.trace")
    assert (tmp_path / "a.trace").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("place", ["missing/a.trace", "file/a.trace", "folder"])
def test_a_place_that_cannot_be_written_is_refused(tmp_path, place):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match=rf"cannot write .*{place}: .*; what was there before"):
        save_trace(a_trace(), tmp_path / place)
    assert {each.name for each in tmp_path.iterdir()} == {"file", "folder"}


def test_any_reader_of_safetensors_finds_the_tensors(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "LARGE_TENSOR", 1)
    trace = a_trace()
    save_trace(trace, tmp_path / "a.trace")
    found = load_file(tmp_path / "a.trace")
    assert torch.equal(found["maps.0.source.query.4"], trace["h.0"].source.query[4])
    assert torch.equal(found["maps.0.top.keys.2"], trace["h.0"].top.keys[2])


def test_only_large_tensors_are_stored_head_by_head(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "LARGE_TENSOR", 100)
    tree = {"large": torch.rand(5, 7), "small": torch.rand(3, 7), "flat": torch.rand(101)}
    writing.write_tree(tmp_path / "a.trace", tree)
    names = {*load_file(tmp_path / "a.trace")}
    assert names == {"large.0", "large.1", "large.2", "large.3", "large.4", "small", "flat"}


def test_what_is_shared_is_stored_once(tmp_path):
    mask = torch.rand(5, 7) > 0.5
    writing.write_tree(tmp_path / "a.trace", [mask, {"again": mask}, mask[:, :3]])
    assert {*load_file(tmp_path / "a.trace")} == {"0", "2"}
    first, second, _ = read_tree(tmp_path / "a.trace", verify=False)
    assert first is second["again"]


def test_wide_numbers_stand_at_places_they_can_be_read_from(tmp_path):
    tree = [
        torch.rand(3) > 0.5,
        torch.rand(5, dtype=torch.float64),
        torch.rand(1) > 2,
        torch.rand(2),
    ]
    writing.write_tree(tmp_path / "a.trace", tree)
    found = read_tree(tmp_path / "a.trace", verify=True)
    assert all(map(torch.equal, found, tree))
    assert all(each.data_ptr() % each.itemsize == 0 for each in found)


def test_numbers_of_numpy_are_stored_as_plain_ones(tmp_path):
    writing.write_tree(tmp_path / "a.trace", [np.int64(7), np.bool_(True), np.float64(0.1)])
    assert read_tree(tmp_path / "a.trace", verify=False) == [7, True, 0.1]


@pytest.mark.parametrize(
    "tensor", [torch.zeros(3, dtype=torch.complex64), torch.eye(3).to_sparse()], ids=str
)
def test_a_tensor_that_the_format_has_no_name_for_is_refused(tmp_path, tensor):
    with pytest.raises(InputError, match=r"cannot store maps.0, a torch.* tensor of .* float64, "):
        writing.write_tree(tmp_path / "a.trace", {"maps": [tensor]})
    assert not [*tmp_path.iterdir()]


def test_text_that_would_come_back_otherwise_is_refused(tmp_path):
    with pytest.raises(InputError, match="has surrogates in pairs, which no file can hold"):
        save_trace(Trace({"x": Tokens(("\ud83d" + "\ude00",))}, ()), tmp_path / "a.trace")


def test_a_header_too_long_for_other_readers_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MAX_HEADER_BYTES", 1000)
    with pytest.raises(
        InputError, match=r"would be [\d,]+ bytes, more than the 1,000 .* a part of"
    ):
        save_trace(a_trace(), tmp_path / "a.trace")
    assert not [*tmp_path.iterdir()]
