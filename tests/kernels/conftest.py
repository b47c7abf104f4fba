"""Every registered implementation, and the rule of when the native one may be missing."""

import os
import shutil

import pytest

from regard.kernels.library import library
from regard.kernels.observe.choice import IMPLEMENTATIONS, NATIVE, Implementation


def built() -> bool:
    """Whether native tests can run; without a compiler they may be skipped, but not in CI."""
    if library() is not None:
        return True
    names = [os.environ["CXX"]] if "CXX" in os.environ else ["c++", "g++", "clang++"]
    if os.environ.get("CI") != "true" and not any(map(shutil.which, names)):
        return False
    raise AssertionError("the native kernels are not built; run python hatch_build.py")


@pytest.fixture
def native() -> Implementation:
    if not built():
        pytest.skip("no C++ compiler is found")
    return NATIVE


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda implementation: implementation.name)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    """Each implementation in turn; one that cannot run here is skipped, native only by its rule."""
    if request.param is NATIVE:
        return request.getfixturevalue("native")
    if not request.param.is_available():
        pytest.skip(f"{request.param.name} is not available here")
    return request.param
