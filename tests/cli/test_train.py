import json
import re
import signal

import pytest

from regard import from_pretrained
from regard.files import exclusive_lock
from regard.training.events import Ended, Stepped

RECIPE = """
task = "language-modelling"
folder = "run"
[data]
train = ["texts.txt"]
dev = "texts.txt"
[vocabulary]
kind = "word"
size = 60
[model]
class = "transformer"
d_model = 8
layers = 1
heads = 2
d_ff = 11
[plan]
steps = 2
tokens = 64
evaluate_every = 2
"""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "texts.txt").write_text("once upon a time\nthe cat saw a dog\n" * 5)
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def test_a_recipe_is_followed_with_its_progress_on_stderr(run, recipe):
    result = run("train", str(recipe))
    assert result.exit_code == 0
    assert re.match(r"done after 2 steps\nthe model is in .*run/model\n", result.stdout)
    assert "loss" in result.stderr
    assert from_pretrained(recipe.parent / "run" / "model").config.layers == 1


def test_quiet_tells_the_end_only_and_in_the_language_asked_for(run, recipe):
    result = run("train", str(recipe), "--quiet", "--lang", "zh")
    assert result.stderr == ""
    assert result.stdout.startswith("完成，共 2 步\n模型位于 ")


def test_json_tells_how_it_ended(run, recipe):
    found = json.loads(run("train", str(recipe), "--quiet", "--json").stdout)
    assert (found["reason"], found["step"]) == ("done", 2)
    assert found["path"].endswith("model")


def test_options_change_the_recipe(run, recipe, monkeypatch):
    plans = []

    def follow(plan, *, callbacks, device):
        plans.append((plan.seed, plan.plan.steps, plan.plan.schedule, len(callbacks), device))
        return Ended(1, "out of time")

    monkeypatch.setattr("regard.training.train.train", follow)
    asked = ["--seed", "7", "--set", "plan.steps=3", "--set", "plan.schedule=cosine"]
    result = run("train", str(recipe), *asked, "--device", "cpu", "--quiet")
    assert plans == [(7, 3, "cosine", 1, "cpu")]
    assert result.stdout == "out of time after 1 steps; run the same command to go on\n"


def test_without_a_device_the_best_one_is_left_to_training(run, recipe, monkeypatch):
    devices = []

    def follow(plan, *, callbacks, device):
        devices.append((device, len(callbacks)))
        return Ended(1, "interrupted")

    monkeypatch.setattr("regard.training.train.train", follow)
    monkeypatch.setattr("regard.training.logs.TensorBoard", lambda path: path)
    run("train", str(recipe), "--tensorboard")
    assert devices == [(None, 3)]


def test_ctrl_c_saves_and_ends_with_130_and_the_same_command_goes_on(run, recipe, monkeypatch):
    def interrupt(log, event):
        if isinstance(event, Stepped):
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr("regard.training.logs.JsonLines.__call__", interrupt)
        result = run("train", str(recipe), "--quiet")
    assert (result.exit_code, result.stderr) == (130, "")
    assert result.stdout == "interrupted after 1 steps; run the same command to go on\n"
    assert run("train", str(recipe), "--quiet").stdout.startswith("done after 2 steps")


def test_a_second_trainer_is_one_line_and_exit_code_2(run, recipe):
    folder = recipe.parent / "run"
    folder.mkdir()
    with exclusive_lock(folder / ".lock", "", ""):
        result = run("train", str(recipe), "--quiet")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert f"is training in {folder}; wait until it ends" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "steps"], "--set expected KEY=VALUE"),
        (["--set", "plan.stepps=3"], "did you mean 'steps'?"),
        (["--set", "model=" + "[" * 9999], "a recipe expected model to be an object"),
        (["--set", "plan.steps=18446744073709551616"], "steps to be a whole number"),
        (["--set", "plan.rate=NaN"], "rate to be a number, got nan"),
        (["--set", "path=3"], "no key of a recipe 'path'"),
        (["--device", "abacus"], "no device 'abacus' here"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, recipe, arguments, said):
    result = run("train", str(recipe), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
