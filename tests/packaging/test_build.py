"""What the build hook decides; that a wheel can be built and used is tried by tools/smoke.py."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def build():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("place", "machine", "tag"),
    [
        ("linux-x86_64", "x86_64", "py3-none-linux_x86_64"),
        ("linux-aarch64", "aarch64", "py3-none-linux_aarch64"),
        ("macosx-11.0-arm64", "arm64", "py3-none-macosx_11_0_arm64"),
        ("macosx-10.9-universal2", "arm64", "py3-none-macosx_10_9_arm64"),
    ],
)
def test_a_wheel_with_libraries_names_the_machine_they_are_for(
    build, monkeypatch, place, machine, tag
):
    monkeypatch.setattr(build.sysconfig, "get_platform", lambda: place)
    monkeypatch.setattr(build.platform, "machine", lambda: machine)
    assert build.wheel_tag() == tag


@pytest.mark.parametrize(("built", "pure"), [(["_native_plain.so"], False), ([], True)])
def test_a_wheel_without_libraries_is_for_every_machine(build, monkeypatch, built, pure):
    monkeypatch.setattr(build, "Hook", object)
    monkeypatch.setattr(build, "compile_all", lambda: [Path(name) for name in built])
    hook = build.CustomBuildHook.__new__(build.CustomBuildHook)
    monkeypatch.setattr(build.CustomBuildHook, "target_name", "wheel", raising=False)
    data = {"artifacts": [], "pure_python": True}
    hook.initialize("standard", data)
    assert (data["pure_python"], "tag" not in data) == (pure, pure)


def test_types_are_shipped_and_promised():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (ROOT / "src" / "regard" / "py.typed").is_file()
    assert "Typing :: Typed" in project["classifiers"]


def test_what_the_sources_need_to_be_built_is_in_the_sdist():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]
    included = {name.strip("/") for name in settings["build"]["targets"]["sdist"]["include"]}
    assert included >= {"src", "hatch_build.py", "README.md", "LICENSE", "constraints.txt"}
