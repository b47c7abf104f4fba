"""A recurrent model begins with the frequent pairs of its corpus and with given word vectors."""

import json
from itertools import pairwise

import pytest
import torch

import regard
from regard.errors import InputError
from regard.models import from_pretrained
from regard.models.recurrent.linear_logits import LinearLogits
from regard.models.recurrent.pairs import PairedEmbedding
from regard.models.tokenizers import Tokenizer
from regard.training.embeddings import prepare_embeddings
from regard.training.linear_fit import fit_linear_logits

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
    rows = dict(zip(embedding.pairs.known_pairs(), embedding.pairs.table.weight[1:], strict=True))
    good = tuple(tokenizer("好吃", add_special_tokens=False)["input_ids"])
    torch.testing.assert_close(rows[good], torch.tensor([0.0, 1.0, 0.0]))


def test_vectors_of_another_width_or_other_words_are_refused(tokenizer, tmp_path):
    with pytest.raises(InputError, match="word vectors of 3 numbers do not fit d_embed=5"):
        embedding_of(tokenizer, tmp_path, dim=5)
    with pytest.raises(InputError, match=r"no word of .* is one or two tokens"):
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


def test_the_linear_part_alone_separates_what_pairs_tell(tmp_path):
    model = 'class = "recurrent-classifier"\nd_embed = 3\npairs = 40\nlinear = 1.0\nhidden = 8'
    path = write_recipe(tmp_path, "classification", model)
    ended = regard.train(path, device="cpu", changes={"plan.steps": 1})
    trained = from_pretrained(ended.path)
    ids = trained.tokenizer(["好吃", "不好吃"], return_tensors="pt", padding=True)
    real = ids["attention_mask"].bool()
    rows = trained.words.pairs.rows(ids["input_ids"])
    logits = trained.linear(ids["input_ids"], rows, real)
    assert logits.argmax(-1).tolist() == [1, 0]
    alone = trained.linear(ids["input_ids"][:1, : int(real[0].sum())], rows[:1, :3], None)
    torch.testing.assert_close(logits[:1], alone)
    assert not any(each.requires_grad for each in trained.linear.parameters())


def test_the_linear_fit_is_where_its_gradient_is_zero():
    torch.manual_seed(0)
    texts = [torch.randint(5, 17, (int(size),)).tolist() for size in torch.randint(2, 9, (29,))]
    classes = torch.randint(0, 3, (29,))
    linear = LinearLogits(17, 0, 3)
    fit_linear_logits(linear, None, texts, classes.tolist())
    weight = torch.cat([linear.tokens.weight, linear.bias[None]]).detach().requires_grad_()
    signs = 2.0 * torch.nn.functional.one_hot(classes, 3) - 1
    sums = [weight[row].sum(0) / len(row) ** 0.5 + weight[-1] for row in texts]
    short = (1 - signs * torch.stack(sums)).clamp_min(0)
    loss = weight[:-1].square().sum() / 2 + 0.3 * short.square().sum()
    (gradient,) = torch.autograd.grad(loss, weight)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-2, rtol=0)


def test_pairs_of_its_own_tell_what_the_pairs_of_the_network_do_not(tmp_path):
    model = 'class = "recurrent-classifier"\nd_embed = 3\nlinear = 1.0\nhidden = 8'
    path = write_recipe(tmp_path, "classification", f"{model}\nlinear_pairs = 640")
    trained = from_pretrained(regard.train(path, device="cpu", changes={"plan.steps": 1}).path)
    names = [trained.tokenizer.decode(list(pair)) for pair in trained.linear.known_pairs()]
    assert "好吃" in names
    assert "不去" not in names  # is there once
    ids = trained.tokenizer(["不好吃", "真好吃", "好吃"], return_tensors="pt", padding=True)
    real = ids["attention_mask"].bool()
    logits = trained.linear(ids["input_ids"], None, real)
    assert logits[:, 1].argmin() == 0
    torch.testing.assert_close(logits[:, 0], -logits[:, 1])
    alone = trained.linear(ids["input_ids"][2:, : int(real[2].sum())], None, None)
    torch.testing.assert_close(logits[2:], alone)


def test_pairs_of_its_own_count_by_how_rare_they_are():
    torch.manual_seed(0)
    texts = [torch.randint(5, 17, (int(size),)).tolist() for size in torch.randint(2, 9, (29,))]
    classes = torch.randint(0, 3, (29,))
    linear = LinearLogits(17, 0, 3, own_pairs=128)
    fit_linear_logits(linear, None, texts, classes.tolist())
    rows = {pair: row for row, pair in enumerate(linear.known_pairs(), 1)}
    counts = torch.zeros(29, 17 + 129)
    for number, ids in enumerate(texts):
        for column in [*ids, *(17 + rows[pair] for pair in pairwise(ids) if pair in rows)]:
            counts[number, column] += len(ids) ** -0.5
    rarity = (29 / (counts > 0).sum(0).clamp_min(1)).log() + 1
    scale = rarity / (counts * rarity).square().sum(1).mean().sqrt()
    table = torch.cat([linear.tokens.weight, linear.own.view(-1, 3)[:129]])
    weight = torch.cat([table / scale[:, None], linear.bias[None]]).detach().requires_grad_()
    sums = counts @ (scale[:, None] * weight[:-1]) + weight[-1]
    signs = 2.0 * torch.nn.functional.one_hot(classes, 3) - 1
    short = (1 - signs * sums).clamp_min(0)
    loss = weight[:-1].square().sum() / 2 + 0.3 * short.square().sum()
    (gradient,) = torch.autograd.grad(loss, weight)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-2, rtol=0)


def test_a_vocabulary_too_large_for_the_keys_of_pairs_is_refused():
    with pytest.raises(InputError, match="expected at most 46340 tokens, got 50000"):
        LinearLogits(50000, 0, 2, own_pairs=64)


def test_word_vectors_are_refused_where_they_have_no_place(tmp_path):
    sizes = "d_model = 8\nlayers = 1\nheads = 1\nd_ff = 8"
    path = write_recipe(tmp_path, "classification", f'vectors = "vectors.txt"\n{sizes}')
    with pytest.raises(InputError, match="word vectors cannot be given to a transformer"):
        regard.train(path, device="cpu")
