"""From a recipe to a translator: the tiny corpus is learnt in less than a minute."""

import json
from pathlib import Path

import pytest

from regard.errors import FileError, InputError, UnknownNameError
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
