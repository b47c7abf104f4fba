"""Which implementation takes a call."""

from collections.abc import Iterator

import pytest
import torch

from regard.kernels import library
from regard.kernels.observe import native as native_module
from regard.kernels.observe import observe
from regard.kernels.observe.call import Call, Scoring
from regard.kernels.observe.choice import (
    IMPLEMENTATIONS,
    NATIVE,
    PORTABLE,
    Implementation,
    implementation_for,
)


def a_small_call(dtype: torch.dtype = torch.float32) -> Call:
    side = torch.randn(1, 2, 5, 3, dtype=dtype)
    return Call(side, side, side, Scoring())


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(native_module, "library", lambda: None)
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    library.warn_missing.cache_clear()
    yield
    library.warn_missing.cache_clear()


@pytest.mark.usefixtures("missing")
def test_a_missing_library_is_warned_of_once_and_the_portable_code_runs() -> None:
    with pytest.warns(UserWarning, match="native kernels are not built, so the slower portable"):
        assert implementation_for(a_small_call()) is PORTABLE
    assert implementation_for(a_small_call()) is PORTABLE


@pytest.mark.usefixtures("missing")
def test_a_call_that_native_code_does_not_support_gives_no_warning() -> None:
    assert implementation_for(a_small_call(torch.float64)) is PORTABLE


@pytest.mark.usefixtures("missing")
def test_a_disabled_library_gives_no_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert implementation_for(a_small_call()) is PORTABLE


def test_native_code_takes_a_call_that_it_supports(
    native: Implementation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    assert implementation_for(a_small_call()) is NATIVE is native


def test_observe_gives_the_same_context_with_and_without_native_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = a_small_call()
    one = observe(call.query, call.key, call.value)
    monkeypatch.setenv("REGARD_NATIVE", "0")
    two = observe(call.query, call.key, call.value)
    torch.testing.assert_close(one.context, two.context)


def test_the_last_implementation_takes_what_no_other_takes() -> None:
    assert IMPLEMENTATIONS[-1] is PORTABLE
    assert PORTABLE.supports(a_small_call(torch.float64))
    assert PORTABLE.is_available()
