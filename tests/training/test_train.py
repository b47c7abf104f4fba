"""From a recipe to a translator: the tiny corpus is learnt in less than a minute."""

import json
import os
import sys
from pathlib import Path
from shutil import rmtree

import pytest

from process_groups import run_with_children
from regard.errors import FileError, InputError, UnknownNameError
from regard.files import exclusive_lock
from regard.models import from_pretrained
from regard.training.events import Ended, Evaluated, Event, Stepped
from regard.training.logs import JsonLines
from regard.training.recipe_file import load_recipe
from regard.training.tasks import TASKS
from regard.training.train import build_model, train

TINY = Path(__file__).parents[2] / "recipes" / "tiny" / "recipe.toml"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, list[Event], Path]:
    folder = tmp_path_factory.mktemp("tiny")
    told: list[Event] = []
    log = JsonLines(folder / "log.jsonl")
    ended = train(TINY, callbacks=[told.append, log], changes={"folder": str(folder)})
    return ended, told, folder


@pytest.mark.slow
def test_the_tiny_corpus_is_learnt(run: tuple[Ended, list[Event], Path]) -> None:
    last = [event for event in run[1] if isinstance(event, Evaluated)][-1]
    assert run[0].reason == "done"
    assert last.metrics["loss"] < 0.3
    assert last.metrics["bleu"] > 90


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "target"), [("I love you", "我爱你"), ("I love you.", "我爱你。")]
)
@pytest.mark.parametrize("beams", [1, 5])
def test_the_finished_model_translates(
    run: tuple[Ended, list[Event], Path], source: str, target: str, beams: int
) -> None:
    assert run[0].path is not None
    model = from_pretrained(run[0].path)
    ids = model.tokenizer.encode(source, return_tensors="pt")
    written = model.generate(ids, num_beams=beams)
    assert model.tokenizer.decode(written[0], skip_special_tokens=True) == target


@pytest.mark.slow
def test_every_event_is_a_line_of_the_log(run: tuple[Ended, list[Event], Path]) -> None:
    lines = [json.loads(line) for line in (run[2] / "log.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["event"] == "stepped"]
    assert [line["event"] for line in (lines[0], lines[-1])] == ["started", "ended"]
    assert len(steps) == sum(isinstance(event, Stepped) for event in run[1])


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('task = "translation"\nfolder = "x"\n[plan]\nstep = 5', "did you mean 'steps'"),
        ('task = "translation"\nfolder = "x"\nsede = 5', "did you mean 'seed'"),
        ('task = "translating"\nfolder = "x"', "did you mean 'translation'"),
        (
            'task = "translation"\nfolder = "x"\n[plan]\nsteps = "many"',
            "steps to be a whole number",
        ),
        ('task = "translation"\nfolder = "x"\n[plan]\nrate = 0', "a rate above 0"),
        ('task = "translation"\nfolder = "x"\n[plan]\naverage = 9', "the mean of 9 checkpoints"),
        ('task = "translation"', "expected the key folder"),
    ],
)
def test_a_recipe_that_is_wrong_is_told_what_is(
    tmp_path: Path, text: str, message: str, unchecked: None
) -> None:
    with pytest.raises(InputError, match=message):
        load_recipe(written(tmp_path, text))


def test_files_that_are_no_recipes_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no recipe"):
        load_recipe(tmp_path / "missing.toml")
    with pytest.raises(FileError, match="is no TOML"):
        load_recipe(written(tmp_path, "task = "))


def test_changes_go_over_what_the_file_says() -> None:
    recipe = load_recipe(TINY, **{"plan.steps": 7, "seed": 5, "model.hidden": 32})
    assert (recipe.plan.steps, recipe.seed, recipe.model["hidden"]) == (7, 5, 32)


def test_a_class_of_model_that_is_not_known_is_refused() -> None:
    recipe = load_recipe(TINY, **{"model.class": "recurent"})
    with pytest.raises(UnknownNameError, match="did you mean 'recurrent'"):
        build_model(recipe, TASKS[recipe.task].learn_tokenizer(recipe))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": "x"}, "expected seed to be a whole number, got 'x'"),
        ({"seed": 2**64}, "expected seed to be a whole number, got 1844"),
        ({"seed.x": 3}, r"seed of a recipe has no keys, so seed\.x cannot be set"),
        ({"folder": 3}, "expected folder to be text, got 3"),
        ({"folder": "a\0b"}, "expected a folder's name"),
        ({"task": ["translation"]}, "no task"),
        ({"plan": 3}, "expected plan to be an object, got 3"),
        ({"model": [1]}, "expected model to be an object"),
        ({"data.train": [3]}, r"expected train\[0\] to be text or a list, got 3"),
        ({"data.train": 3}, "expected train to be a list, got 3"),
        ({"data.dev": 3}, "expected dev to be text, got 3"),
        ({"data.longest": -1}, "longest of at least 1, got -1"),
        ({"plan.betas": [0.9]}, "expected betas to have 2 items, got 1"),
        ({"plan.betas": [0.9, 5]}, "betas from 0 to below 1"),
        ({"plan.steps": 2**64}, "expected steps to be a whole number, got 1844"),
        ({"plan.rate": float("nan")}, "expected rate to be a number, got nan"),
        ({"vocabulary.size": -5}, "size of at least 1, got -5"),
        ({"path": 3}, "no key of a recipe 'path'"),
    ],
)
def test_wrong_types_in_a_recipe_are_named(
    changes: dict[str, object], message: str, unchecked: None
) -> None:
    with pytest.raises(InputError, match=message):
        load_recipe(TINY, **changes)


@pytest.mark.parametrize("setting", ["x", 0.5, 2**64, 2**62, -1, None, [3]])
def test_an_impossible_size_of_a_model_is_one_sentence(setting: object, unchecked: None) -> None:
    recipe = load_recipe(TINY, **{"model.hidden": setting})
    with pytest.raises(InputError):
        build_model(recipe, TASKS[recipe.task].learn_tokenizer(recipe))


def test_a_language_model_has_no_parallel_files() -> None:
    recipe = load_recipe(TINY, **{"task": "language-modelling", "data.train": [["a.en", "a.zh"]]})
    with pytest.raises(InputError, match=r"data.train names two parallel files"):
        TASKS[recipe.task].learn_tokenizer(recipe)


LANGUAGE_MODEL = """
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
tie_embeddings = true
[plan]
steps = 2
tokens = 64
evaluate_every = 2
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "texts.txt").write_text("once upon a time\nthe cat saw a dog\n" * 5)
    return written(tmp_path, LANGUAGE_MODEL)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_part_of_a_vocabulary_is_learnt_again_before_the_first_checkpoint(
    recipe: Path, name: str
) -> None:
    train(recipe)
    run = recipe.parent / "run"
    complete = (run / "tokenizer" / name).read_text()
    rmtree(run / "checkpoints")
    (run / "tokenizer" / name).unlink()
    train(recipe)
    assert (run / "tokenizer" / name).read_text() == complete


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_part_of_a_vocabulary_that_checkpoints_need_is_refused(recipe: Path, name: str) -> None:
    train(recipe)
    (recipe.parent / "run" / "tokenizer" / name).unlink()
    with pytest.raises(FileError, match=rf"has no {name}, and the checkpoints beside it need that"):
        train(recipe)


def test_one_of_two_vocabularies_is_a_part(tmp_path: Path) -> None:
    changes = {"folder": str(tmp_path), "plan.steps": 1, "plan.evaluate_every": 1}
    recipe = load_recipe(TINY, **changes)
    TASKS[recipe.task].learn_tokenizer(recipe).source.save(tmp_path / "tokenizer")
    train(recipe)
    assert (tmp_path / "tokenizer" / "target_tokenizer.json").exists()


def test_a_folder_in_which_another_run_is_training_is_refused(recipe: Path) -> None:
    run = recipe.parent / "run"
    run.mkdir()
    with (
        exclusive_lock(run / ".lock", "training", ""),
        pytest.raises(
            FileError, match=r"process \d+ on .* is training in .*run; wait until it ends"
        ),
    ):
        train(recipe)
    train(recipe)
    assert not (run / ".lock").exists()


def test_a_run_folder_that_cannot_be_made_is_named(recipe: Path) -> None:
    (recipe.parent / "run").write_text("a file")
    with pytest.raises(FileError, match=r"cannot write to .*run: File exists"):
        train(recipe)


@pytest.mark.slow
def test_two_processes_go_on_with_shared_weights_and_write_the_model(
    recipe: Path,
) -> None:
    train(recipe)
    start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    changes = ["--set", "plan.steps=3", "--set", "plan.sharing=fsdp"]
    command = [sys.executable, *start, "-m", "regard", "train", str(recipe), *changes]
    settings = os.environ | {"OMP_NUM_THREADS": "1", "COVERAGE_CORE": ""}
    done = run_with_children(command, settings)
    assert done.returncode == 0, done.stderr
    assert "the model is in" in done.stdout
    assert from_pretrained(recipe.parent / "run" / "model").config.tie_embeddings
