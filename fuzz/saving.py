"""What the campaign of crashes kills: training, and every function that saves something."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import regard
from regard.cli.output import write_lines
from regard.files import finish_replacement, replacement
from regard.models import Tokenizer, Transformer
from regard.models.checkpoints.locations import FILE_NAMES
from regard.models.tokenizers import TokenizerPair
from regard.studies.survey import run as survey_run
from regard.studies.survey.files import save_survey
from regard.training.logs import JsonLines
from regard.training.train import train
from regard.types import Trace
from regard.views import heatmap

__all__ = ["LOG", "SCENARIOS", "TEMPORARY", "Scenario", "build_models"]

LOG = "log.jsonl"  # has the time of each event
TEMPORARY = (".lock", ".state")  # files that are removed at the end
_TEXTS = ["once upon a time", "the cat saw a dog", "a dog", "the cat saw the time"]
_SIZES = {"d_model": 8, "layers": 1, "heads": 2, "d_ff": 11}
_RECIPE = """
task = "language-modelling"
folder = "run"
[data]
train = ["texts.txt"]
dev = "texts.txt"
[vocabulary]
kind = "word"
size = 60
[model]
d_model = 8
layers = 1
heads = 2
d_ff = 11
dropout = 0.1
[plan]
steps = 5
tokens = 64
evaluate_every = 2
save_every = 1
keep = 2
average = 2
"""
_CHECKPOINT = {"model.safetensors", "optimizer.safetensors", "state.json"}
_TOKENIZER = {"tokenizer.json", "tokenizer_config.json"}
_MODEL = {"config.json", "generation_config.json", "model.safetensors", *_TOKENIZER}


@dataclass(frozen=True)
class Scenario:
    """Work in a folder that is prepared once: `act` is killed and done again.

    `recover` is what a reader does first, where the old or the new content is not at its path at
    every moment. `parts` yields what is wrong with the files after a kill; without it they have to
    be those of before or of after.
    """

    name: str
    prepare: Callable[[Path], Any]
    act: Callable[[Path], Any]
    recover: Callable[[Path], Any] | None = None
    parts: Callable[[dict[str, str]], Iterator[str]] | None = None


def _prepare_training(folder: Path) -> None:
    """The recipe and the corpus."""
    (folder / "recipe.toml").write_text(_RECIPE)
    (folder / "texts.txt").write_text("\n".join(_TEXTS * 3))


def _train(folder: Path) -> None:
    """Train by the recipe, with a log."""
    recipe = folder / "recipe.toml"
    train(recipe, callbacks=[JsonLines(folder / "run" / LOG)], device="cpu")


def _check_run_folder(left: dict[str, str]) -> Iterator[str]:
    """The folders of a run that are not complete."""
    folders: dict[str, set[str]] = {}
    for name in left:
        folder, _, file = name.rpartition("/")
        folders.setdefault(folder, set()).add(file)
    for folder, files in folders.items():
        last = folder.rpartition("/")[2]
        expected = {"tokenizer": _TOKENIZER, "model": _MODEL}.get(last)
        if last.startswith("step-"):
            expected = _CHECKPOINT
        if expected is not None and files != expected:
            yield f"{folder} has {', '.join(sorted(files))}"
    yield from (f"{name}{digest}" for name, digest in left.items() if "broken" in digest)


@cache
def _tokenizer() -> Tokenizer:
    """A vocabulary of the texts."""
    return Tokenizer.train(_TEXTS * 3, "word", 60)


@cache
def _model(layers: int) -> Transformer:
    """A small model with its vocabulary; models of different depth have different files."""
    torch.manual_seed(layers)
    model = Transformer(kind="decoder", vocab=len(_tokenizer()), **_SIZES | {"layers": layers})
    model.tokenizer = TokenizerPair(_tokenizer(), _tokenizer()) if layers == 1 else _tokenizer()
    return model.eval()


def build_models() -> None:
    """Build the models once, before children are forked."""
    for layers in (1, 2):
        _model(layers)


def _prepare_model(folder: Path) -> None:
    """A saved model in a folder in which the user keeps files too."""
    _model(1).save_pretrained(folder / "model")
    (folder / "model" / "README.md").write_text("mine")
    (folder / "model" / "notes").mkdir()
    (folder / "model" / "notes" / "a.txt").write_text("mine too")


def _save_model(folder: Path) -> None:
    """Save another model over the one that is there."""
    _model(2).save_pretrained(folder / "model")


def _save_model_by_renames(folder: Path) -> None:
    """The same where the system cannot exchange two names."""
    replacement._exchange_names = lambda first, second: False
    _save_model(folder)


def _save_model_inside(folder: Path) -> None:
    """The same to the working directory, which is not renamed."""
    os.chdir(folder / "model")
    _save_model(folder)


def _finish_model(folder: Path) -> None:
    """What every reader of a model does first."""
    finish_replacement(folder / "model", FILE_NAMES)


def _save_tokenizer(folder: Path) -> None:
    """Save one vocabulary over two."""
    _tokenizer().save(folder / "tokenizer")


def _trace(size: int) -> Trace:
    """A trace of that many tokens."""
    return Trace.from_weights(torch.eye(size), [f"t{number}" for number in range(size)])


def _survey(folder: Path) -> None:
    """Survey with a state that is saved after each batch, as the command does it."""
    survey_run.SECONDS = -1.0
    model, state = _model(2), folder / "heads.json.state"
    result = survey_run.survey(model, _tokenizer(), _TEXTS, batch=7, state=state)
    save_survey(result, folder / "heads.json")
    state.unlink(missing_ok=True)


def _view(name: str) -> Scenario:
    """A view saved over another."""
    return Scenario(
        f"save a view to {name}",
        lambda folder: heatmap(_trace(5)).save(folder / name),
        lambda folder: heatmap(_trace(3)).save(folder / name),
    )


SCENARIOS = (
    Scenario("train", _prepare_training, _train, parts=_check_run_folder),
    Scenario("save a model over another", _prepare_model, _save_model),
    Scenario("save a model by two renames", _prepare_model, _save_model_by_renames, _finish_model),
    Scenario("save a model from inside", _prepare_model, _save_model_inside, _finish_model),
    Scenario(
        "save a tokenizer over a pair",
        lambda folder: TokenizerPair(_tokenizer(), _tokenizer()).save(folder / "tokenizer"),
        _save_tokenizer,
    ),
    Scenario(
        "save a trace over another",
        lambda folder: regard.save_trace(_trace(5), folder / "a.trace"),
        lambda folder: regard.save_trace(_trace(3), folder / "a.trace"),
    ),
    _view("page.html"),
    _view("view.json"),
    _view("figure.svg"),
    Scenario("survey with a state", lambda folder: None, _survey),
    Scenario(
        "print lines to a file",
        lambda folder: write_lines(["old"], folder / "lines.txt"),
        lambda folder: write_lines(["new", "lines"], folder / "lines.txt"),
    ),
)
