"""A summariser learns on a tiny corpus to copy words that its vocabulary lacks."""

import json

import pytest

from regard.errors import FileError, InputError
from regard.models import from_pretrained
from regard.training.losses import IGNORED
from regard.training.recipe_file import load_recipe
from regard.training.summaries import SummarisedText, SummaryFiles
from regard.training.summary_metrics import mean_rouge, rouge_scores
from regard.training.tasks.summarisation import Summarisation, summarise_all
from regard.training.train import train

NOISE = ("the cat sleeps", "we saw a dog", "it rains again", "nobody came here")
PLAN = "tokens = 400\nrate = 1e-2\nwarmup = 10\nsmoothing = 0.0\ncoverage = 0.1"


def new_word(number):
    return "".join("bdgklmnprs"[number // 10**place % 10] + "aeiou"[place] for place in range(3))


def records(first, count):
    """Texts about a tool whose name stands in no other text, between other sentences."""
    for number in range(first, first + count):
        name, before = new_word(number * 7), NOISE[number % 4]
        text = f"{before} . a new tool called {name} was made . {NOISE[(number + 1) % 4]}"
        yield {"text": text, "summary": f"a tool called {name}"}


def recipe(folder, **plan):
    for name, first, count in (("train", 0, 120), ("dev", 130, 8)):
        lines = "\n".join(json.dumps(record) for record in records(first, count))
        (folder / f"{name}.jsonl").write_text(lines)
    extra = "\n".join(f"{key} = {value}" for key, value in plan.items())
    (folder / "recipe.toml").write_text(
        'task = "summarisation"\nfolder = "run"\n[data]\ntrain = ["train.jsonl"]\n'
        'dev = "dev.jsonl"\nlongest = 24\n[vocabulary]\nkind = "word"\nsize = 30\nlower = true\n'
        '[model]\nclass = "pointer-generator"\nd_embed = 12\nhidden = 24\ndropout = 0.0\n'
        f"[plan]\n{PLAN}\n{extra}\n"
    )
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("summaries")
    train(recipe(folder, steps=70, evaluate_every=70, save_every=70))
    return from_pretrained(folder / "run" / "model")


def test_a_word_that_nobody_has_seen_is_copied_into_the_summary(trained):
    text = "we saw a dog . a new tool called zorbly was made . the cat sleeps"
    assert trained.tokenizer.unk_token_id in trained.tokenizer.encode("zorbly")
    assert summarise_all(trained, [text, "It rains again"])[0] == "a tool called zorbly"


def test_training_resumes_where_it_stopped(tmp_path):
    weights = []
    for name, stops in (("whole", [6]), ("halves", [3, 6])):
        (tmp_path / name).mkdir()
        path = recipe(tmp_path / name, evaluate_every=6, save_every=3, steps=6)
        for steps in stops:
            train(path, changes={"plan.steps": steps})
        weights.append(from_pretrained(tmp_path / name / "run" / "model").state_dict())
    assert all(bool((weights[0][name] == weights[1][name]).all()) for name in weights[0])


def test_an_unknown_word_has_the_same_number_in_text_and_summary(tmp_path):
    loaded = load_recipe(recipe(tmp_path))
    task = Summarisation(loaded, Summarisation.learn_tokenizer(loaded))
    vocab = len(task.tokenizer)
    (source, target), _ = examples = task.encode(
        [SummarisedText("a zub . the yiv", "yiv , zub , wof"), SummarisedText("a yiv", "a")]
    )
    assert [number - vocab for number in source if number >= vocab] == [0, 1]
    assert [number - vocab for number in target if number >= vocab] == [1, 0]
    assert task.tokenizer.unk_token_id in target  # "wof" is not in its text
    batch = task.collate(examples)
    assert batch.tokens == len(target) + 2
    assert (batch.labels != IGNORED).sum() == batch.tokens


def test_embeddings_begin_with_the_vectors_of_a_file(tmp_path):
    path, vectors = recipe(tmp_path), tmp_path / "vectors.txt"
    vectors.write_text("cat 1.0 2.0\ndog -1.0 0.5\nunseen 0 0\n")
    train(path, changes={"plan.steps": 1, "plan.rate": 1e-9, "model.vectors": "vectors.txt"})
    model = from_pretrained(tmp_path / "run" / "model")
    cat, dog = (model.words.table.weight[i] for i in model.tokenizer.encode("cat dog")[:2])
    assert cat[1] > 0 > dog[1]
    assert cat[0] > 0 > dog[0]


def test_two_vocabularies_and_a_line_without_summary_are_refused(tmp_path):
    path = recipe(tmp_path)
    with pytest.raises(InputError, match="both sides need one vocabulary"):
        train(path, changes={"vocabulary.target_size": 20})
    (tmp_path / "train.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(FileError, match=r'line 1: expected an object with the texts "text" and'):
        list(SummaryFiles((tmp_path / "train.jsonl",)))


def test_rouge_counts_words_pairs_and_order():
    (score,) = rouge_scores(["the big cat"], ["the cat, big"])
    assert score.rouge1 == pytest.approx(100)
    assert score.rouge2 == 0
    assert score.rougeL == pytest.approx(200 / 3)
    assert mean_rouge([score, score]) == score


def test_rouge_of_chinese_counts_characters():
    (score,) = rouge_scores(["我爱猫 AI"], ["我爱狗 AI"])
    assert score.rouge1 == pytest.approx(75)


def test_as_many_references_as_summaries_are_expected():
    with pytest.raises(InputError, match="as many summaries as references"):
        rouge_scores(["a"], [])
