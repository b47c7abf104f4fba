"""SECURITY.md names where its promises are tested, and can be found."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "SECURITY.md").read_text("utf-8")


def promises():
    rows = re.findall(r"^\| (\*\*.+?) \| (.+) \|$", DOCUMENT, re.MULTILINE)
    return [(promise, re.findall(r"`([^`]+\.py)`", tests)) for promise, tests in rows]


def test_every_promise_has_tests_that_are_there():
    assert len(promises()) == 7
    for promise, files in promises():
        assert files, promise
        assert [file for file in files if not (ROOT / file).is_file()] == []


def test_no_address_is_given_but_the_form_of_the_repository():
    assert "Report a vulnerability" in DOCUMENT
    assert re.search(r"[\w.]+@[\w.]+", DOCUMENT) is None


@pytest.mark.parametrize("document", ["README.md", "README.zh-CN.md", "CONTRIBUTING.md"])
def test_it_is_linked(document):
    assert "(SECURITY.md)" in (ROOT / document).read_text("utf-8")


def test_it_is_in_the_sdist():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]
    assert "SECURITY.md" in settings["build"]["targets"]["sdist"]["include"]
