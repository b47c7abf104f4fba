import pytest
import torch
from safetensors.torch import save_file

from regard.errors import FileError
from regard.storage import layout, load_trace, reading, save_trace
from regard.storage.layout import LENGTH_BYTES
from regard.types import Trace
from traces import a_trace


@pytest.fixture
def path(tmp_path):
    save_trace(a_trace(), tmp_path / "a.trace")
    return tmp_path / "a.trace"


def blobs_start(path):
    return LENGTH_BYTES + int.from_bytes(path.read_bytes()[:LENGTH_BYTES], "little")


def flip(path, place, bit=4):
    content = bytearray(path.read_bytes())
    content[place] ^= bit
    path.write_bytes(content)


def test_a_file_cut_anywhere_is_refused(path):
    content = path.read_bytes()
    for length in {*range(0, len(content), 499), *range(70), len(content) - 1}:
        path.write_bytes(content[:length])
        with pytest.raises(FileError, match=r"a.trace is cut short: expected [\d,]+ bytes, got"):
            load_trace(path)


def test_a_file_with_something_after_it_is_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(FileError, match=r"a.trace is too long: expected .*; copy it again"):
        load_trace(path)


def test_a_flipped_bit_anywhere_in_the_header_is_noticed(path):
    content = path.read_bytes()
    for place in [*range(70), *range(70, blobs_start(path), 211)]:
        flip(path, place)
        with pytest.raises(FileError, match=r"a.trace is (damaged|cut short|no trace|of format)"):
            load_trace(path)
        path.write_bytes(content)


def test_a_flipped_bit_anywhere_in_a_tensor_is_noticed(path):
    content = path.read_bytes()
    for place in range(blobs_start(path), len(content), 401):
        flip(path, place)
        with pytest.raises(
            FileError, match=r"damaged in maps\.\d.*: expected the checksum .*; copy"
        ):
            load_trace(path)
        path.write_bytes(content)


def test_a_damaged_header_says_so(path):
    flip(path, blobs_start(path) // 2)
    with pytest.raises(FileError, match=r"is damaged: expected its header as it was written, got"):
        load_trace(path)


def test_a_large_file_is_checked_when_asked(path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_WHOLE_FILE", 0)
    flip(path, -1)
    assert len(load_trace(path)) == 3
    with pytest.raises(FileError, match=r"damaged in maps.1.source.weights"):
        load_trace(path, verify=True)


def test_the_header_of_a_large_file_is_always_checked(path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_WHOLE_FILE", 0)
    flip(path, blobs_start(path) // 2)
    with pytest.raises(FileError, match="is damaged: expected its header"):
        load_trace(path)


def test_a_whole_large_file_passes_its_check(path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_WHOLE_FILE", 0)
    monkeypatch.setattr(reading, "CHUNK", 7)
    assert len(load_trace(path, verify=True)) == 3


def test_writing_to_a_mapped_tensor_leaves_the_file_alone(path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_WHOLE_FILE", 0)
    before = path.read_bytes()
    load_trace(path)["h.1"].source.weights.zero_()
    assert path.read_bytes() == before


def test_a_mapped_trace_outlives_its_file(path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_WHOLE_FILE", 0)
    trace = load_trace(path)
    before = trace["h.1"].weights().clone()
    path.unlink()
    assert torch.equal(trace["h.1"].weights(), before)


def test_a_mapped_trace_keeps_few_bytes_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MAX_WHOLE_FILE", 0)
    save_trace(Trace.from_weights(torch.rand(32, 1, 512, 512), ["x"] * 512), tmp_path / "a.trace")
    before = resident()
    trace = load_trace(tmp_path / "a.trace")
    trace["layer 7"].weights(0).sum()
    assert resident() - before < (tmp_path / "a.trace").stat().st_size / 4


def resident():
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * 4096


@pytest.mark.parametrize(
    "content", [b"PK\x03\x04" + b"x" * 99, b"\x80\x05" * 50, b"\0" * 200, b"hello, this is text"]
)
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "a.trace").write_bytes(content)
    with pytest.raises(
        FileError, match=r"a.trace is no trace: expected a header .* got b'.*; give"
    ):
        load_trace(tmp_path / "a.trace")


def test_another_file_of_safetensors_is_refused(tmp_path):
    save_file({"weight": torch.rand(3, 5)}, tmp_path / "a.trace", metadata={"format": "pt"})
    with pytest.raises(FileError, match=r"a.trace is no trace: expected a header that begins with"):
        load_trace(tmp_path / "a.trace")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "a.trace").touch()
    with pytest.raises(FileError, match=r"a.trace is cut short: expected \d+ bytes, got 0; copy"):
        load_trace(tmp_path / "a.trace")


def test_a_newer_format_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "VERSION", 12)
    save_trace(a_trace(), tmp_path / "a.trace")
    monkeypatch.undo()
    with pytest.raises(FileError, match=r"format 12: expected format 2 or older, .*pip install -U"):
        load_trace(tmp_path / "a.trace")


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"cannot read .*a.trace: No such file.*; give the path"):
        load_trace(tmp_path / "a.trace")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"cannot read .*: Is a directory; give the path"):
        load_trace(tmp_path)


def test_a_path_may_be_a_string(path):
    assert len(load_trace(str(path))) == 3
