"""The oldest versions that are tested are the lower bounds of pyproject.toml."""

import importlib.util
import json
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
OLDEST_PYTHON = {"python_version": "3.11"}
# What only developers install, in the versions of constraints.txt.
DEVELOPMENT = {"check", "bench", "docs", "dev"}


@pytest.fixture(scope="module")
def oldest():
    spec = importlib.util.spec_from_file_location("oldest", ROOT / "tools" / "oldest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def lower_bounds() -> dict[str, Version]:
    groups = [project()["dependencies"]]
    groups += [v for k, v in project()["optional-dependencies"].items() if k not in DEVELOPMENT]
    bounds = {}
    for requirement in (Requirement(line) for group in groups for line in group):
        if requirement.name != "regard":
            (bound,) = requirement.specifier
            assert bound.operator == ">="
            bounds[requirement.name] = Version(bound.version)
    return bounds


def pins(file: str) -> list[Requirement]:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def version_of(pin: Requirement) -> Version:
    (specifier,) = pin.specifier
    assert specifier.operator == "=="
    return Version(specifier.version)


def test_every_lower_bound_is_tested_and_nothing_else():
    first = [
        pin
        for pin in pins("constraints-oldest.txt")
        if pin.marker is None or pin.marker.evaluate(OLDEST_PYTHON)
    ]
    tested = {pin.name: version_of(pin) for pin in first if pin.name != "torch"}
    bounds = lower_bounds()
    del bounds["torch"]
    assert tested == bounds


def test_torch_is_the_build_for_cpus_that_all_tests_use():
    (torch,) = [pin for pin in pins("constraints-oldest.txt") if pin.name == "torch"]
    (usual,) = [pin for pin in pins("constraints.txt") if pin.name == "torch"]
    assert version_of(torch) == version_of(usual)
    assert version_of(torch) >= lower_bounds()["torch"]


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_every_python_has_one_version_of_each_package(python):
    names = [
        pin.name
        for pin in pins("constraints-oldest.txt")
        if pin.marker is None or pin.marker.evaluate({"python_version": python})
    ]
    assert sorted(names) == sorted(lower_bounds())


def test_the_tests_that_are_named_are_there(oldest):
    missing = [
        name
        for name in [*oldest.TESTS, *oldest.TESTS_WITHOUT_TORCH, *oldest.COMPILED]
        if not (ROOT / name).exists()
    ]
    assert not missing


@pytest.mark.parametrize(
    ("names", "cuda"),
    [(["torch", "sympy"], False), (["torch", "nvidia-cublas"], True), (["cuda-bindings"], True)],
)
def test_libraries_of_cuda_are_seen_in_a_report_of_pip(oldest, names, cuda):
    report = json.dumps({"install": [{"metadata": {"name": name}} for name in names]})
    assert oldest.needs_cuda(report) is cuda


def test_without_torch_all_other_dependencies_are_installed(oldest):
    needed = {Requirement(line).name for line in oldest.dependencies_without_torch()}
    listed = {Requirement(line).name for line in project()["dependencies"]}
    assert needed == listed - {"torch"} | {"pytest", "hypothesis"}


def test_every_optional_dependency_of_users_is_installed(oldest):
    extras = {*project()["optional-dependencies"]} - DEVELOPMENT
    (all_of_them,) = project()["optional-dependencies"]["all"]
    included = Requirement(all_of_them).extras | {"all", *oldest.EXTRAS.split(",")}
    assert included == extras
