"""The command line run inside the test's own process, and as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from regard.cli import main
from regard.loading import LoadedModel
from regard.loading.abilities import abilities_of_native_model

NEUTRAL = {"REGARD_LANG": None, "LANG": "C", "FORCE_COLOR": None, "TTY_COMPATIBLE": None}


@pytest.fixture
def run() -> Callable[..., Result]:
    def invoke(*args: str, width: int = 80, **environment: str) -> Result:
        env = {**NEUTRAL, "COLUMNS": str(width), **environment}
        return CliRunner().invoke(main, args, env=env)

    return invoke


@pytest.fixture
def spawn() -> Callable[..., subprocess.Popen[str]]:
    def start(*command: str, **settings: Any) -> subprocess.Popen[str]:
        env = {name: value for name, value in os.environ.items() if name not in NEUTRAL}
        return subprocess.Popen(
            [sys.executable, *command],
            env=env | {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"} | settings.pop("env", {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            **settings,
        )

    return start


@pytest.fixture
def serve(monkeypatch) -> Callable[..., dict[str, Any]]:
    """Let every name be that of one model; the dict tells with what `regard.load` was called."""

    def patch(model: Any) -> dict[str, Any]:
        calls: dict[str, Any] = {}

        def load(name: str, **settings: Any) -> LoadedModel:
            calls.update(settings, name=name)
            able = abilities_of_native_model(model)._asdict()
            return LoadedModel(name, model, model.tokenizer, native=True, **able)

        monkeypatch.setattr("regard.loading.load", load)
        return calls

    return patch
