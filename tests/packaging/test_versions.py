"""The version is told in one place, and what else tells it agrees."""

import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

import regard

ROOT = Path(__file__).parents[2]
RELEASED = ".dev" not in regard.__version__
HEADING = re.compile(r"^## \[(.+?)\] - (.+)$", re.MULTILINE)


def tags() -> list[str]:
    """The tags of versions that this commit has; none without git or outside of a clone."""
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [name for name in ran.stdout.split() if re.fullmatch(r"v\d.*", name)]


def test_what_is_installed_is_what_the_sources_say():
    assert version("regard") == regard.__version__


def test_the_first_entry_of_the_changelog_is_this_version():
    number, when = HEADING.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))[0]
    assert number == regard.__version__.partition(".dev")[0]
    if RELEASED:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", when)
    else:
        assert when == "unreleased"


def test_every_entry_of_the_changelog_is_older_than_the_one_above():
    found = [name for name, _ in HEADING.findall((ROOT / "CHANGELOG.md").read_text("utf-8"))]
    numbers = [tuple(map(int, name.split("."))) for name in found]
    assert numbers == sorted({*numbers}, reverse=True)


@pytest.mark.skipif(not tags(), reason="this commit has no tag of a version")
def test_a_tag_is_this_version():
    assert tags() == [f"v{regard.__version__}"]
