from regard.storage import is_trace_file, save_trace
from traces import a_trace


def test_a_trace_is_known_by_its_first_bytes(tmp_path):
    save_trace(a_trace(), tmp_path / "any name")
    (tmp_path / "t.trace").write_text("I love you")
    assert is_trace_file(tmp_path / "any name")
    assert not is_trace_file(tmp_path / "t.trace")
    assert not is_trace_file(tmp_path)
