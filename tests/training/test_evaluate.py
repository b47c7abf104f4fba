"""The scores of a translator and of a story teller."""

import math

import pytest
import torch

from regard.errors import InputError
from regard.models import Recurrent, Tokenizer, Transformer
from regard.models.generation import GenerationSettings
from regard.training.corpora import Pair
from regard.training.evaluate import bleu_tokenizer_for, evaluate, evaluate_texts, word_count
from regard.training.losses import cross_entropy

PAIRS = [Pair("I love you.", "我爱你。"), Pair("she loves tea", "她爱茶"), Pair("no", "不")]


def tokenizer() -> Tokenizer:
    return Tokenizer.train([side for pair in PAIRS for side in pair] * 9, "bpe", 330)


def settings(own: Tokenizer) -> GenerationSettings:
    return GenerationSettings().replace(
        decoder_start_token_id=own.bos_token_id,
        bos_token_id=own.bos_token_id,
        eos_token_id=own.eos_token_id,
        pad_token_id=own.pad_token_id,
    )


@pytest.fixture
def translator() -> Recurrent:
    own = tokenizer()
    model = Recurrent(vocab=len(own), d_embed=13, hidden=22).eval()
    model.tokenizer, model.generation = own, settings(own)
    return model


def test_the_loss_is_that_of_each_pair_alone(translator: Recurrent) -> None:
    own, total, tokens = translator.tokenizer, 0.0, 0
    for source, target in PAIRS:
        ids, labels = (torch.tensor([own.encode(side)]) for side in (source, target))
        late = torch.cat([torch.tensor([[own.bos_token_id]]), labels[:, :-1]], dim=1)
        total += cross_entropy(translator(ids, late), labels).item()
        tokens += labels.numel()
    assert evaluate(translator, PAIRS).loss == pytest.approx(total / tokens, rel=1e-5)


def test_every_pair_is_told_of_and_scored(translator: Recurrent) -> None:
    done: list[int] = []
    found = evaluate(translator, PAIRS, beam=2, on_progress=done.append)
    assert (done, found.pairs, found.bleu_tokenizer) == ([1, 2, 3], 3, "zh")
    assert found.speed > 0
    assert "tok:zh" in found.signature
    assert [(each.first, each.last, each.pairs) for each in found.by_length] == [(1, 5, 3)]


def test_perfect_translations_have_perfect_scores(
    translator: Recurrent, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = dict(PAIRS)
    own = translator.tokenizer

    def generate(ids: torch.Tensor, real: torch.Tensor, **_: object) -> list[list[int]]:
        texts = [own.decode(row, skip_special_tokens=True) for row in ids]
        return [[own.bos_token_id, *own.encode(right[text])] for text in texts]

    monkeypatch.setattr(translator, "generate", generate)
    found = evaluate(translator, PAIRS)
    assert (round(found.bleu), round(found.chrf)) == (100, 100)
    assert found.by_length[0].chrf == pytest.approx(100)


@pytest.mark.parametrize(
    ("text", "words"),
    [("我爱你", "zh"), ("I love 北京", "zh"), ("you", "13a"), ("私はあなたを愛しています", "char")],
)
def test_the_tokenizer_is_guessed_from_the_references(text: str, words: str) -> None:
    assert bleu_tokenizer_for([text]) == words


def test_the_length_of_chinese_is_its_characters() -> None:
    assert [word_count(text) for text in ("I love you.", "我爱你", "我爱 NLP")] == [3, 3, 3]


def test_nothing_to_evaluate_on_is_refused(translator: Recurrent) -> None:
    with pytest.raises(InputError, match="at least one pair"):
        evaluate(translator, [])
    with pytest.raises(InputError, match="at least one text"):
        evaluate_texts(translator, [])


def test_texts_have_a_loss_and_its_exponential() -> None:
    own = tokenizer()
    sizes = {"d_model": 14, "layers": 1, "heads": 2, "d_ff": 17, "dropout": 0.0}
    model = Transformer(kind="decoder", vocab=len(own), **sizes).eval()
    model.tokenizer, model.generation = own, settings(own)
    texts = ["I love you.", "she loves tea"]
    found = evaluate_texts(model, texts)
    ids = [torch.tensor([[own.bos_token_id, *own.encode(text)]]) for text in texts]
    losses = [cross_entropy(model(each[:, :-1]), each[:, 1:]).item() for each in ids]
    mean = sum(losses) / sum(each.numel() - 1 for each in ids)
    assert found.loss == pytest.approx(mean, rel=1e-5)
    assert found.perplexity == pytest.approx(math.exp(mean), rel=1e-4)
