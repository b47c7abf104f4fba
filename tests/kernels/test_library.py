from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from regard.kernels import library
from regard.kernels.observe import observe
from regard.kernels.observe.call import Call, Scoring
from regard.kernels.observe.choice import NATIVE, PORTABLE, Kernel, kernel_for


def a_small_call(dtype: torch.dtype = torch.float32) -> Call:
    side = torch.randn(1, 2, 5, 3, dtype=dtype)
    return Call(side, side, side, Scoring())


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(library, "library", lambda: None)
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    library.notice_missing.cache_clear()
    yield
    library.notice_missing.cache_clear()


@pytest.mark.usefixtures("missing")
def test_a_missing_native_kernel_is_noticed_once_and_replaced() -> None:
    with pytest.warns(UserWarning, match="native kernels are not built, so the slower portable"):
        assert kernel_for(a_small_call()) is PORTABLE
    assert kernel_for(a_small_call()) is PORTABLE


@pytest.mark.usefixtures("missing")
def test_what_is_not_for_the_native_kernel_needs_no_notice() -> None:
    assert kernel_for(a_small_call(torch.float64)) is PORTABLE


@pytest.mark.usefixtures("missing")
def test_who_asks_for_the_portable_kernel_gets_it_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert kernel_for(a_small_call()) is PORTABLE


def test_the_native_kernel_is_taken_where_it_fits(
    native: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    assert kernel_for(a_small_call()) is NATIVE is native


def test_a_file_that_is_no_library_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "_native_plain.so"
    assert library.load(broken) is None
    broken.write_text("not a library")
    assert library.load(broken) is None


def test_a_library_of_another_layout_is_passed_over(
    native: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "LAYOUT", 1)
    assert library.load(Path(library.library()._name)) is None


def test_threads_are_those_of_torch() -> None:
    if "libgomp" not in Path("/proc/self/maps").read_text():
        pytest.skip("this torch has another OpenMP runtime")
    assert library._parallel_of_torch()


def test_both_kernels_agree_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    call = a_small_call()
    one = observe(call.query, call.key, call.value)
    monkeypatch.setenv("REGARD_NATIVE", "0")
    two = observe(call.query, call.key, call.value)
    torch.testing.assert_close(one.context, two.context)
