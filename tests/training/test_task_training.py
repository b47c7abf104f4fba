"""A classifier and a reader are trained from end to end on tiny corpora, also after a stop."""

import json
import os
import sys

import pytest
import torch

import regard
from process_groups import run_with_children
from regard.errors import InputError
from regard.models import Transformer, from_pretrained
from regard.training.recipe_file import load_recipe
from regard.training.tasks import Answering, Classification

GOOD, BAD = ("good", "fine", "great", "lovely"), ("bad", "poor", "awful", "dull")
PLACES = ("paris", "rome", "oslo", "delhi", "lima", "cairo", "quito")
NAMES = ("ada", "bo", "cy", "dee", "eve")
SIZES = "d_model = 16\nlayers = 1\nheads = 2\nd_ff = 24\ndropout = 0.0"
PLAN = "tokens = 256\nwarmup = 5\nrate = 2e-2\nsmoothing = 0.0\nschedule = 'constant'"


def labelled(folder):
    """Texts of which one word tells the label; others are noise."""
    words = [(word, 1) for word in GOOD] + [(word, 0) for word in BAD]
    lines = [
        f"the {noun} is {word}\t{label}" for noun in ("film", "tea", "cat") for word, label in words
    ]
    (folder / "texts.tsv").write_text("\n".join(lines))


def questions(folder):
    """Who lives where: the answer is the place after the name in question."""
    rows = []
    for shift, name in enumerate(NAMES):
        for turn in range(len(PLACES)):
            homes = [PLACES[(turn + 2 * index) % len(PLACES)] for index in range(3)]
            people = [NAMES[(shift + index) % len(NAMES)] for index in range(3)]
            context = " ".join(
                f"{who} lives in {home} ." for who, home in zip(people, homes, strict=True)
            )
            start = context.index(homes[0])
            answers = [{"text": homes[0], "start": start}]
            rows.append({"question": f"where is {name}", "context": context, "answers": answers})
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))


def matches(folder):
    """What of whom: the right entry is the word that is asked for."""
    words = ("age", "height", "home", "name", "work")
    rows = [
        {"question": f"{who} {word}", "right": word, "wrong": [w for w in words if w != word]}
        for who in NAMES
        for word in words
    ]
    (folder / "matches.jsonl").write_text("\n".join(map(json.dumps, rows)))


FILES = {
    "classification": "texts.tsv",
    "answering": "questions.jsonl",
    "matching": "matches.jsonl",
}


def recipe(folder, task, model, **plan):
    data = FILES[task]
    names = 'labels = ["negative", "positive"]' if task == "classification" else ""
    extra = "\n".join(f"{key} = {json.dumps(value)}" for key, value in plan.items())
    path = folder / "recipe.toml"
    path.write_text(
        f'task = "{task}"\nfolder = "run"\n[data]\ntrain = ["{data}"]\ndev = "{data}"\n'
        f"longest = 24\n{names}\n[vocabulary]\nkind = 'word'\nsize = 60\n[model]\n{model}\n"
        f"[plan]\n{PLAN}\n{extra}\n"
    )
    return path


MODELS = {
    "transformer": f'class = "transformer"\n{SIZES}',
    "recurrent": 'class = "recurrent-classifier"\nd_embed = 12\nhidden = 16\ndropout = 0.0',
}


@pytest.mark.parametrize("model", MODELS)
def test_a_classifier_learns_and_is_ready_for_classify(tmp_path, model):
    labelled(tmp_path)
    events = []
    path = recipe(tmp_path, "classification", MODELS[model], steps=40, evaluate_every=40)
    ended = regard.train(path, callbacks=[events.append], device="cpu")
    values = next(event.metrics for event in events if hasattr(event, "metrics"))
    assert values["accuracy"] == 1.0
    loaded = regard.load(ended.path, device="cpu")
    assert loaded.labels == ("negative", "positive")
    results = regard.classify(["the film is lovely", "the cat is dull"], loaded)
    assert [result.answer for result in results] == ["positive", "negative"]
    assert regard.view(results[0]).numbers.words


def test_a_reader_learns_to_point_at_the_answer(tmp_path):
    questions(tmp_path)
    torch.manual_seed(0)
    events = []
    sizes = SIZES.replace("layers = 1", "layers = 2").replace("16", "32")
    path = recipe(tmp_path, "answering", sizes, steps=120, evaluate_every=120, rate=5e-3)
    path.write_text(path.read_text().replace("rate = 2e-2\n", ""))
    ended = regard.train(path, callbacks=[events.append], device="cpu")
    values = next(event.metrics for event in events if hasattr(event, "metrics"))
    assert values["f1"] > 60
    result = regard.answer("where is ada", "ada lives in oslo .", str(ended.path), no_answer=False)
    assert result.answer in ("oslo", "ada lives in oslo", "in oslo", "lives in oslo", "ada")


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(tmp_path):
    weights = []
    for name, stops in (("once", [12]), ("twice", [5, 12])):
        folder = tmp_path / name
        folder.mkdir()
        labelled(folder)
        for steps in stops:
            path = recipe(folder, "classification", MODELS["recurrent"], steps=steps)
            ended = regard.train(path, device="cpu")
        weights.append(from_pretrained(ended.path).state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_model_may_start_from_the_weights_of_another(tmp_path):
    labelled(tmp_path)
    first = recipe(tmp_path, "classification", MODELS["transformer"], steps=3)
    trunk = regard.train(first, device="cpu").path
    (tmp_path / "next").mkdir()
    questions(tmp_path / "next")
    path = recipe(tmp_path / "next", "answering", f'start = "{trunk}"', steps=1, rate=1e-9)
    path.write_text(path.read_text().replace("rate = 2e-2\n", ""))
    reader = from_pretrained(regard.train(path, device="cpu").path)
    assert reader.config.ending == "spans"
    before = from_pretrained(trunk).state_dict()
    after = reader.state_dict()
    shared = [name for name in before if name.startswith("encoder.")]
    assert shared
    for name in shared:
        torch.testing.assert_close(after[name], before[name], atol=1e-6, rtol=0)


def test_balanced_weights_are_the_inverse_of_the_frequencies(tmp_path):
    (tmp_path / "texts.tsv").write_text("a\tx\nb\ty\nc\ty\nd\ty\n")
    path = recipe(tmp_path, "classification", SIZES, balanced=True, steps=1)
    path.write_text(path.read_text().replace('labels = ["negative", "positive"]', ""))
    settings = load_recipe(path)
    task = Classification(settings, Classification.learn_tokenizer(settings))
    assert task.labels == ("x", "y")
    assert task.class_weights.tolist() == pytest.approx([2.0, 2 / 3])


def test_a_window_without_the_answer_points_to_the_first_token(tmp_path):
    questions(tmp_path)
    path = recipe(tmp_path, "answering", SIZES, steps=1)
    path.write_text(path.read_text().replace("longest = 24", "longest = 13"))
    settings = load_recipe(path)
    task = Answering(settings, Answering.learn_tokenizer(settings))
    (question,) = list(task._held_out)[:1]
    examples = task.encode([question])
    assert len(examples) > 1
    places = [tuple(place) for *_, place in examples]
    assert (0, 0) in places
    ids, *_, (first, last) = next(each for each in examples if tuple(each[-1]) != (0, 0))
    assert task.tokenizer.decode(ids[first : last + 1]) == question.answers[0].text


@pytest.mark.parametrize(
    ("task", "model", "message"),
    [
        (
            "classification",
            'class = "recurrent"',
            "no class of model for classification 'recurrent'",
        ),
        ("answering", 'class = "recurrent-classifier"', "no class of model for answering"),
        ("classification", 'start = "en-zh-rnn"', "expected a Transformer, en-zh-rnn is a Recurr"),
    ],
)
def test_a_model_that_does_not_fit_the_task_is_refused(tmp_path, task, model, message):
    labelled(tmp_path)
    questions(tmp_path)
    with pytest.raises(InputError, match=message):
        regard.train(recipe(tmp_path, task, model, steps=1), device="cpu")


def test_a_classifier_needs_two_labels(tmp_path):
    (tmp_path / "texts.tsv").write_text("a\tx\nb\tx\n")
    path = recipe(tmp_path, "classification", SIZES, steps=1)
    path.write_text(path.read_text().replace('labels = ["negative", "positive"]', ""))
    with pytest.raises(InputError, match="a classifier needs two labels or more, got x"):
        regard.train(path, device="cpu")


def test_the_pooling_of_a_recurrent_classifier_ignores_padding():
    from regard.models import RecurrentClassifier

    torch.manual_seed(0)
    model = RecurrentClassifier(vocab=31, d_embed=5, hidden=6, labels=3).eval()
    text, padded = torch.tensor([[7, 8, 9]]), torch.tensor([[7, 8, 9, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 0, 0]])
    torch.testing.assert_close(model(padded, attention_mask=mask), model(text))
    assert isinstance(model, Transformer) is False


def last_loss(folder, processes):
    """The loss of the last step of a run with some processes."""
    start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command = [sys.executable, *(start if processes > 1 else []), "-m", "regard", "train"]
    path = recipe(folder, "classification", MODELS["recurrent"], steps=7, tokens=64)
    path.write_text(path.read_text().replace("tokens = 256\n", ""))
    settings = os.environ | {"OMP_NUM_THREADS": "1", "COVERAGE_CORE": ""}
    done = run_with_children([*command, str(path), "--quiet"], settings)
    assert done.returncode == 0, done.stderr
    events = map(json.loads, (folder / "run" / "log.jsonl").read_text().splitlines())
    return [event["loss"] for event in events if event["event"] == "stepped"][-1]


@pytest.mark.slow
def test_two_processes_train_a_classifier_as_one_does(tmp_path):
    losses = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        folder.mkdir()
        labelled(folder)
        losses.append(last_loss(folder, processes))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


MATCHERS = {
    "matcher": "class = 'matcher'\nd_embed = 16\nhidden = 16\nd_match = 8\ndropout = 0.0",
    "transformer": SIZES,
    "sentence encoder": f"{SIZES}\nhead = 'none'",
}


@pytest.mark.parametrize("kind", MATCHERS)
def test_a_matcher_learns_which_entry_answers(tmp_path, kind):
    matches(tmp_path)
    path = recipe(tmp_path, "matching", MATCHERS[kind], steps=60, evaluate_every=60)
    events = []
    ended = regard.train(path, device="cpu", callbacks=[events.append])
    metrics = next(each.metrics for each in events if type(each).__name__ == "Evaluated")
    assert metrics["first"] > 0.9
    assert metrics["mrr"] >= metrics["first"]
    assert from_pretrained(ended.path).config.ending in ("match", "classes", "none")


def test_training_a_matcher_after_a_stop_ends_at_the_same_weights(tmp_path):
    weights = []
    for name, stops in (("whole", [6]), ("stopped", [3, 6])):
        folder = tmp_path / name
        folder.mkdir()
        matches(folder)
        for steps in stops:
            path = recipe(folder, "matching", MATCHERS["matcher"], steps=steps)
            ended = regard.train(path, device="cpu")
        weights.append(from_pretrained(ended.path).state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
