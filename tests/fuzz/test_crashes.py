"""A short campaign of crashes, and what it reports of writers that are not atomic."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CAMPAIGNS = """
import json
from fuzz.crashes import run
from fuzz.saving import SCENARIOS, Scenario

def failures_of(scenarios, cases=None):
    failures = []
    run(20, cases, lambda name, detail: failures.append(f"{name} {detail[-400:]}"), scenarios)
    return failures

def write_both(folder, text):
    for name in ("a", "b"):
        (folder / name).write_text(text)

def fail(folder):
    raise ValueError("broken")

short = [scenario for scenario in SCENARIOS if "svg" not in scenario.name]  # matplotlib is slow
both = Scenario("both", lambda folder: write_both(folder, "1"), lambda f: write_both(f, "2"))
broken = Scenario("broken", lambda folder: None, fail)
print(json.dumps([failures_of(short, 16), failures_of([both]), failures_of([broken])]))
"""


@pytest.fixture(scope="module")
def campaigns() -> list[list[str]]:
    """The failures of three campaigns.

    They run in a process of their own, because children are forked from it before it has threads.
    """
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    command, settings = [sys.executable, "-c", CAMPAIGNS], os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, env=settings)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


def test_a_kill_at_any_operation_loses_and_mixes_nothing(campaigns):
    assert campaigns[0] == []


def test_files_that_are_written_one_after_another_are_reported(campaigns):
    mixed = [failure for failure in campaigns[1] if "neither old nor new: " in failure]
    assert len(mixed) == 3  # in the write of a, before b is opened, and in the write of b
    assert "case 2: both: killed at open b, 3 of 4" in mixed[1]


def test_a_scenario_that_fails_without_a_kill_is_reported(campaigns):
    assert len(campaigns[2]) == 1
    assert campaigns[2][0].startswith("traceback: broken without a kill")
    assert "ValueError: broken" in campaigns[2][0]
