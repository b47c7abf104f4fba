import json
from pathlib import Path

import pytest

from regard.models import Recurrent, Tokenizer, Transformer
from regard.models.generation import GenerationSettings

LINES = ["I love you.", "she loves tea", "我爱你。", "她爱茶"]


def dressed(model, tokenizer):
    model.tokenizer = tokenizer
    model.generation = GenerationSettings().replace(
        decoder_start_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("evaluated")
    tokenizer = Tokenizer.train(LINES * 9, "bpe", 330, punctuation=True, chinese="character")
    size = len(tokenizer)
    dressed(Recurrent(vocab=size, d_embed=13, hidden=22), tokenizer).save_pretrained(place / "rnn")
    sizes = {"d_model": 14, "layers": 1, "heads": 2, "d_ff": 17}
    teller = Transformer(kind="decoder", vocab=size, **sizes)
    dressed(teller, tokenizer).save_pretrained(place / "teller")
    (place / "test.tsv").write_text("I love you.\t我爱你。\nshe loves tea\t她爱茶\n" * 3)
    (place / "gold.tsv").write_text("I love you .\t我 爱 你 。\t0-0 1-1 2-2 3p3\n")
    (place / "zh.src-tgt").write_text("我 爱 你 ||| i love you\n她 爱 茶 ||| she loves tea\n")
    (place / "zh.gold").write_text("1-1 2-2 3-3\n1-1 2-2 3p3\n")
    return place


@pytest.fixture
def evaluate(run, folder):
    def started(model, data, *args, **settings):
        paths = [str(folder / each) if Path(each).suffix else each for each in (data, *args)]
        return run("evaluate", str(folder / model), *paths, **settings)

    return started


def test_the_scores_are_printed_a_line_each(evaluate):
    result = evaluate("rnn", "test.tsv", "--by-length", "--gold", "gold.tsv", "--peaks", "gold.tsv")
    assert (result.exit_code, result.stderr) == (0, "")
    names = [line.split(":")[0] for line in result.stdout.splitlines()]
    assert names[:6] == ["pairs", "BLEU", "chrF", "loss per token", "target tokens/s", "sacrebleu"]
    assert names[6:8] == [
        "chrF of 1-5 source words (6 pairs)",
        "alignment error rate (1 sentences)",
    ]
    assert names[-1] == "right peaks (1 sentences)"


def test_json_has_all_numbers_by_name(evaluate):
    asked = ["--gold", "gold.tsv", "--by-length", "--limit", "3", "--beam", "2", "--json"]
    found = json.loads(evaluate("rnn", "test.tsv", *asked).stdout)
    assert (found["pairs"], found["bleu_tokenizer"]) == (3, "zh")
    assert found["by_length"][0]["pairs"] == 3
    assert found["alignment"]["diagonal"]["error_rate"] == 0
    assert set(found["alignment"]["agreement"]) == {"precision", "recall", "error_rate"}


def test_links_of_the_other_direction_are_turned(evaluate):
    asked = ["--gold", "zh.gold", "--one-based", "--reverse", "--json"]
    found = json.loads(evaluate("rnn", "zh.src-tgt", *asked).stdout)
    assert (found["pairs"], found["alignment"]["sentences"]) == (2, 2)
    assert found["alignment"]["diagonal"]["error_rate"] == 0


def test_the_numbers_are_named_in_chinese(evaluate):
    assert "每词元损失" in evaluate("rnn", "test.tsv", "--limit", "1", "--lang", "zh").stdout


def test_a_story_teller_has_loss_and_perplexity(evaluate):
    result = evaluate("teller", "test.tsv")
    names = [line.split(":")[0] for line in result.stdout.splitlines()]
    assert (result.exit_code, names) == (0, ["texts", "loss per token", "perplexity"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnn", "gone.tsv"], "no corpus"),
        (["rnn", "test.tsv", "--gold", "test.tsv"], "got 2 columns"),
        (["rnn", "zh.src-tgt", "--gold", "zh.gold"], "lies beyond"),
        (["teller", "test.tsv", "--beam", "2"], "--beam is for models that translate"),
        (["gone", "test.tsv"], "no folder"),
    ],
)
def test_what_cannot_be_scored_is_told_in_a_sentence(evaluate, arguments, message):
    result = evaluate(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("regard: ")
    assert len(result.stderr.splitlines()) == 1


def test_progress_comes_after_a_moment(evaluate, monkeypatch):
    clock = iter([0.0, *(3.0 + n for n in range(99))])
    monkeypatch.setattr("regard.cli.progress.monotonic", lambda: next(clock))
    result = evaluate("rnn", "test.tsv", FORCE_COLOR="1")
    assert result.exit_code == 0
    assert "/6" in result.stderr
