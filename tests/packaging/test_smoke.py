"""The smoke test itself: it tries every command, and sees what goes wrong."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from regard.cli.program import COMMANDS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def smoke():
    spec = importlib.util.spec_from_file_location("smoke", ROOT / "tools" / "smoke.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["smoke"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["smoke"]


def test_every_command_is_tried_and_some_fail_as_they_should(smoke):
    trials = smoke.trials()
    assert {*COMMANDS} <= {trial.words[0] for trial in trials if trial.code == 0}
    assert any(trial.code == 2 for trial in trials)


@pytest.mark.parametrize(
    ("trial", "wrong"),
    [
        ({"words": ("--version",), "says": "regard"}, None),
        ({"words": ("--version",), "says": "nothing"}, "did not say 'nothing'"),
        ({"words": ("--version",), "code": 2}, "ended with 0, not 2"),
        ({"words": ("--version",), "makes": ("gone",)}, "did not write ['gone']"),
        ({"words": ("looks",), "code": 2, "says": "did you mean"}, None),
    ],
)
def test_what_goes_wrong_is_seen(smoke, tmp_path, trial, wrong):
    env = os.environ | smoke.environment()
    found = smoke.attempt(Path(sys.executable), smoke.Trial(**trial), tmp_path, env)
    assert found is None if wrong is None else found.startswith(wrong)


def test_a_strangers_shell_has_none_of_our_settings(smoke, monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "0")
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    env = smoke.environment(CXX="none")
    assert "REGARD_NATIVE" not in env
    assert "LANG" not in env
    assert env["CXX"] == "none"
