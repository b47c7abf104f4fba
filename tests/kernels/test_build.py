import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

from regard.kernels import library
from regard.kernels.observe.choice import Implementation

ROOT = Path(__file__).parents[2]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "builds", lambda: {"plain": ["-O1"]})
    return module


def test_what_is_compiled_can_be_loaded(
    native: Implementation, build: ModuleType, tmp_path: Path
) -> None:
    [built] = build.compile_all(tmp_path)
    assert library.load(built) is not None
    assert [path.name for path in tmp_path.iterdir()] == ["_native_plain.so"]


def test_what_killed_builds_left_is_removed_and_what_runs_stays(
    build: ModuleType, tmp_path: Path
) -> None:
    old, new = tmp_path / "_native_plain.12.part", tmp_path / "_native_plain.13.part"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    build._remove_old_parts(tmp_path / "_native_plain.so")
    assert list(tmp_path.iterdir()) == [new]


def test_a_compiler_that_fails_does_not_fail_the_build(
    native: Implementation, build: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert build.compile_all(tmp_path, ("-fno-such-flag",)) == []
    assert "_native_plain.so was not built" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_there_is_nothing_to_build(
    build: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build.compile_all(tmp_path) == []


@pytest.mark.parametrize(("target", "count"), [("wheel", 1), ("sdist", 0)])
def test_a_wheel_takes_the_libraries_along(
    build: ModuleType, monkeypatch: pytest.MonkeyPatch, target: str, count: int
) -> None:
    monkeypatch.setattr(build, "compile_all", lambda: [Path("_native_plain.so")])
    hook = build.CustomBuildHook.__new__(build.CustomBuildHook)
    data = {"artifacts": [], "pure_python": True}
    if not hasattr(hook, "target_name"):
        hook.target_name = target
        hook.initialize("standard", data)
        assert len(data["artifacts"]) == count
        assert data.get("tag", "py3-none-any").startswith("py3-none-")
