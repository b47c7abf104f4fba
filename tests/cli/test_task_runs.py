"""Each task on the command line: a model is trained on a tiny corpus, evaluated and used."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

SIZES = "d_model = 16\nlayers = 1\nheads = 2\nd_ff = 24\ndropout = 0.0"
PLACES = ("paris", "rome", "oslo", "lima", "cairo", "delhi")
NAMES = ("ada", "bo", "cy", "dee", "eve", "flo", "gus")
RELATIONS = ("age", "height", "home", "work")


@dataclass(frozen=True)
class Case:
    """A tiny corpus with the settings that learn it, and what is asked of the trained model."""

    rows: list[dict[str, Any]]
    model: str
    steps: int
    metric: str
    least: float
    data: str = ""


def kept_apart(rows):
    """The rows to learn from and those to measure on: every fifth is held out."""
    return [row for number, row in enumerate(rows) if number % 5], rows[::5]


CASES = {
    "classification": Case(
        [
            {"text": f"the {noun} is {word}", "label": label}
            for noun in ("film", "tea", "cat", "book", "soup", "song")
            for label, words in ((1, ("good", "fine", "great")), (0, ("bad", "poor", "dull")))
            for word in words
        ],
        f'class = "transformer"\n{SIZES}',
        80,
        "accuracy",
        1.0,
        'labels = ["negative", "positive"]',
    ),
    "answering": Case(
        [
            {
                "question": "where does she live",
                "context": f"{name} lives in {place} today",
                "answers": [{"text": place, "start": len(f"{name} lives in ")}],
            }
            for name in NAMES
            for place in PLACES
        ],
        SIZES,
        60,
        "f1",
        90.0,
    ),
    "matching": Case(
        [
            {
                "question": f"what {word} has {name}",
                "right": word,
                "wrong": [other for other in RELATIONS if other != word],
            }
            for name in NAMES
            for word in RELATIONS
        ],
        'class = "matcher"\nd_embed = 16\nhidden = 16\nd_match = 8\ndropout = 0.0',
        60,
        "first",
        0.9,
    ),
    "summarisation": Case(
        [
            {
                "text": f"it rains again . a tool called {name}{place} was made . we saw a dog",
                "summary": f"a tool called {name}{place}",
            }
            for name in NAMES
            for place in PLACES
        ],
        'class = "pointer-generator"\nd_embed = 12\nhidden = 24\ndropout = 0.0',
        60,
        "rouge1",
        70.0,
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def write_corpus(folder, task):
    """The two files of a task, and its recipe."""
    case = CASES[task]
    for name, rows in zip(("train", "dev"), kept_apart(case.rows), strict=True):
        lines = (
            f"{row['text']}\t{row['label']}" if task == "classification" else json.dumps(row)
            for row in rows
        )
        suffix = "tsv" if task == "classification" else "jsonl"
        (folder / f"{task}-{name}.{suffix}").write_text("\n".join(lines) + "\n")
    recipe = folder / f"{task}.toml"
    recipe.write_text(
        f'task = "{task}"\nfolder = "{task}"\n[data]\ntrain = ["{task}-train.{suffix}"]\n'
        f'dev = "{task}-dev.{suffix}"\nlongest = 24\n{case.data}\n[vocabulary]\nkind = "word"\n'
        f"size = 60\n[model]\n{case.model}\n[plan]\nsteps = {case.steps}\nevaluate_every = "
        f"{case.steps}\ntokens = 256\nwarmup = 5\nrate = 1e-2\nsmoothing = 0.0\n"
        'schedule = "constant"\n'
    )
    return recipe, folder / f"{task}-dev.{suffix}"


def use(run, task, model, folder):
    """The answer of the task's command to an input that was not trained on, from its JSON."""
    commands = {
        "classification": ("classify", "the film is great"),
        "answering": ("answer", "where does she live", "--context", "ada lives in oslo today"),
        "summarisation": (
            "summarise",
            "it rains again . a tool called zorb was made . we saw a dog",
        ),
        "matching": ("answer", "what home has ada", "--base", str(folder / "facts.tsv")),
    }
    (folder / "facts.tsv").write_text("ada\tage\t36\nada\thome\tlondon\nbo\thome\trome\n")
    result = run(*commands[task], "--model", model, "--json", "--quiet")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


EXPECTED = {
    "classification": ("label", "positive"),
    "answering": ("answer", "oslo"),
    "matching": ("answer", "london"),
    "summarisation": ("summary", "a tool called zorb"),
}


@pytest.mark.parametrize("task", CASES)
def test_a_task_is_trained_evaluated_and_used_on_the_command_line(run, folder, task):
    recipe, held_out = write_corpus(folder, task)
    trained = run("train", str(recipe), "--device", "cpu", "--quiet", "--seed", "1")
    assert trained.exit_code == 0, trained.stderr
    model = str(folder / task / "model")
    measured = run("evaluate", model, str(held_out), "--json", "--quiet")
    assert measured.exit_code == 0, measured.stderr
    assert json.loads(measured.stdout)[CASES[task].metric] >= CASES[task].least
    key, answer = EXPECTED[task]
    assert use(run, task, model, folder)[key] == answer
