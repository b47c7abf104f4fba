"""A recurrent model begins with the frequent pairs of its corpus and with given word vectors."""

import json

import pytest
import torch

import regard
from regard.errors import InputError
from regard.models import from_pretrained
from regard.models.recurrent.pairs import PairedEmbedding
from regard.models.tokenizers import Tokenizer
from regard.training.embeddings import prepare_embeddings

TEXTS = ["不好吃", "好吃", "真好", "真好吃", "不去"]
VECTORS = "好 1 0 0\n好吃 0 2 0\n不好 0 0 3\n真的好 9 9 9\n贵 9 9 9\n"


@pytest.fixture
def tokenizer():
    return Tokenizer.train(TEXTS, "character", 300)


def embedding_of(tokenizer, tmp_path, pairs=4, vectors=VECTORS, dim=3):
    (tmp_path / "vectors.txt").write_text(vectors, encoding="utf-8")
    embedding = PairedEmbedding(len(tokenizer), dim, pairs, dropout=0.0)
    prepare_embeddings(embedding, tokenizer, TEXTS, str(tmp_path / "vectors.txt"))
    return embedding


def names_of(embedding, tokenizer):
    texts = [tokenizer.decode(list(pair)) for pair in embedding.pairs.known_pairs()]
    return sorted(texts)


def test_frequent_pairs_and_words_with_a_vector_are_known(tokenizer, tmp_path):
    embedding = embedding_of(tokenizer, tmp_path)
    assert {"好吃", "真好", "不好"} <= set(names_of(embedding, tokenizer))
    assert "不去" not in names_of(embedding, tokenizer)


def test_tokens_and_pairs_that_are_words_get_the_vectors_of_a_mean_norm_of_one(tokenizer, tmp_path):
    embedding = embedding_of(tokenizer, tmp_path)
    token = embedding.table.weight[tokenizer.convert_tokens_to_ids("好")]
    torch.testing.assert_close(token, torch.tensor([0.5, 0.0, 0.0]))
    rows = dict(zip(embedding.pairs.known_pairs(), embedding.pairs.table.weight[1:]))
    good = tuple(tokenizer("好吃", add_special_tokens=False)["input_ids"])
    torch.testing.assert_close(rows[good], torch.tensor([0.0, 1.0, 0.0]))


def test_vectors_of_another_width_or_other_words_are_refused(tokenizer, tmp_path):
    with pytest.raises(InputError, match="word vectors of 3 numbers do not fit d_embed=5"):
        embedding_of(tokenizer, tmp_path, dim=5)
    with pytest.raises(InputError, match="no word of .* is one or two tokens"):
        embedding_of(tokenizer, tmp_path, vectors="很好看的 1 0 0\n")


def write_recipe(folder, task, model):
    rows = [f"{text}\t{int('不' not in text)}" for text in TEXTS]
    (folder / "texts.tsv").write_text("\n".join(rows), encoding="utf-8")
    context = "小明住在北京，小红住在上海。"
    questions = [("小明住在哪里", "北京"), ("小红住在哪里", "上海")]
    lines = [
        {"question": question, "context": context, "answers": [{"text": text, "start": start}]}
        for question, text in questions
        for start in [context.index(text)]
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "vectors.txt").write_text(VECTORS, encoding="utf-8")
    data = "texts.tsv" if task == "classification" else "questions.jsonl"
    (folder / "recipe.toml").write_text(
        f'task = "{task}"\nfolder = "run"\n[data]\ntrain = ["{data}"]\ndev = "{data}"\n'
        f"longest = 40\n[vocabulary]\nkind = 'character'\nsize = 300\n[model]\n{model}\n"
        "[plan]\nsteps = 60\ntokens = 128\nwarmup = 3\nrate = 3e-2\nevaluate_every = 60\n"
        "schedule = 'constant'\nstored = 'int8'\nsmoothing = 0.0\n"
    )
    return folder / "recipe.toml"


def test_a_classifier_with_pairs_learns_and_classifies(tmp_path):
    model = 'class = "recurrent-classifier"\nd_embed = 3\npairs = 4\nvectors = "vectors.txt"'
    path = write_recipe(tmp_path, "classification", f"{model}\nhidden = 8\ndropout = 0.0")
    ended = regard.train(path, device="cpu")
    results = regard.classify(["好吃", "不好吃"], regard.load(ended.path, device="cpu"))
    assert [result.answer for result in results] == ["1", "0"]
    assert from_pretrained(ended.path).words.pairs.known_pairs()


def test_a_recurrent_reader_learns_and_answers(tmp_path):
    model = 'class = "recurrent-reader"\nd_embed = 12\npairs = 40\nhidden = 32\ndropout = 0.0'
    path = write_recipe(tmp_path, "answering", model)
    loaded = regard.load(regard.train(path, device="cpu").path, device="cpu")
    assert loaded.answers
    context = "小明住在北京，小红住在上海。"
    results = regard.answer(["小明住在哪里", "小红住在哪里"], context, loaded)
    assert [result.answer for result in results] == ["北京", "上海"]
    assert regard.view(results[0]).numbers.words


def test_word_vectors_are_refused_where_they_have_no_place(tmp_path):
    sizes = "d_model = 8\nlayers = 1\nheads = 1\nd_ff = 8"
    path = write_recipe(tmp_path, "classification", f'vectors = "vectors.txt"\n{sizes}')
    with pytest.raises(InputError, match="word vectors cannot be given to a transformer"):
        regard.train(path, device="cpu")
