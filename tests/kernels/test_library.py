from pathlib import Path

import pytest

from regard.kernels import library
from regard.kernels.observe.choice import Implementation


def test_a_file_that_is_no_library_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "_native_plain.so"
    assert library.load(broken) is None
    broken.write_text("not a library")
    assert library.load(broken) is None


def test_a_library_of_another_layout_is_passed_over(
    native: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "LAYOUT", 1)
    assert library.load(Path(library.library()._name)) is None


def test_threads_are_those_of_torch() -> None:
    if "libgomp" not in Path("/proc/self/maps").read_text():
        pytest.skip("this torch has another OpenMP runtime")
    assert library._address_of_gomp_parallel()
