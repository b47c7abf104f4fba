"""Shapes in annotations are checked while testing; seeds are fixed."""

import inspect
import os
import signal
import sys
import types
from collections.abc import Iterator
from functools import partial, partialmethod

import jaxtyping
import pytest
from beartype import BeartypeConf, beartype
from click.testing import CliRunner

# Some virtual machines announce AMX and then refuse it: torch cannot multiply in half precision.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

# A shell starts background jobs with Ctrl-C ignored, and their children inherit that: without
# this line the tests of interrupts would wait for one that never comes.
signal.signal(signal.SIGINT, signal.default_int_handler)

if os.environ.get("REGARD_CHECK_SHAPES", "1") == "1":
    # The compiler cannot look through the checks: `make test` runs tests/compiled without them.
    checks = types.ModuleType("regard_checks")
    checks.check = partial(beartype, conf=BeartypeConf(is_pep484_tower=True))
    sys.modules["regard_checks"] = checks
    jaxtyping.install_import_hook("regard", "regard_checks.check")

if "mix_stderr" in inspect.signature(CliRunner).parameters:
    # Before click 8.2 both streams were mixed by default.
    CliRunner.__init__ = partialmethod(CliRunner.__init__, mix_stderr=False)


@pytest.fixture(autouse=True)
def _seed() -> None:
    import torch

    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _raise_failures() -> Iterator[None]:
    """Let errors of our own be seen, which a watcher would otherwise note as a gap."""
    from regard.tracing.failures import raise_failures

    with raise_failures():
        yield


@pytest.fixture
def unchecked() -> Iterator[None]:
    """For tests of our own messages: without it the annotations would speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
