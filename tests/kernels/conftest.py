"""Both kernels, and the rule of when the native one may be missing."""

import os
import shutil

import pytest

from regard.kernels.library import library
from regard.kernels.observe.choice import NATIVE, PORTABLE, Kernel


def built() -> bool:
    """Whether native tests can run; without a compiler they may be skipped, but not in CI."""
    if library() is not None:
        return True
    names = [os.environ["CXX"]] if "CXX" in os.environ else ["c++", "g++", "clang++"]
    if os.environ.get("CI") != "true" and not any(map(shutil.which, names)):
        return False
    raise AssertionError("the native kernels are not built; run python hatch_build.py")


@pytest.fixture
def native() -> Kernel:
    if not built():
        pytest.skip("no C++ compiler is found")
    return NATIVE


@pytest.fixture(params=["native", "portable"])
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return request.getfixturevalue("native") if request.param == "native" else PORTABLE
