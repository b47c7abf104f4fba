import json

import pytest

from regard.models import PointerGenerator, Tokenizer, Transformer

LABELS = ("bad", "good")
TEXT = "Ada wrote the first program."


def a_model(folder, **settings):
    tokenizer = Tokenizer.train([TEXT, "I love it"] * 9, "bpe", 300)
    model = Transformer(
        kind="encoder", vocab=len(tokenizer), d_model=12, layers=1, heads=3, d_ff=17, **settings
    )
    model.tokenizer = tokenizer
    model.eval().save_pretrained(folder)
    return str(folder)


@pytest.fixture
def classifier(tmp_path):
    return a_model(tmp_path / "classifier", head="classes", label_names=LABELS)


@pytest.fixture
def reader(tmp_path):
    return a_model(tmp_path / "reader", head="spans")


@pytest.fixture
def labelled(tmp_path):
    (tmp_path / "texts.tsv").write_text("I love it\tgood\nthe first program\t0\nAda\tgood\n")
    return str(tmp_path / "texts.tsv")


@pytest.fixture
def questions(tmp_path):
    row = {"question": "Who?", "context": TEXT, "answers": [{"text": "Ada", "start": 0}]}
    (tmp_path / "dev.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    return str(tmp_path / "dev.jsonl")


def test_a_classifier_has_accuracy_f1_and_a_confusion_matrix(run, classifier, labelled):
    record = json.loads(run("evaluate", classifier, labelled, "--json").stdout)
    assert record["texts"] == 3
    assert record["labels"] == list(LABELS)
    right = record["confusion"][0][0] + record["confusion"][1][1]
    assert record["accuracy"] == pytest.approx(right / 3)
    assert sum(map(sum, record["confusion"])) == 3


def test_the_metrics_of_a_classifier_are_printed_with_its_labels(run, classifier, labelled):
    output = run("evaluate", classifier, labelled, "--lang", "zh").stdout
    assert "准确率" in output
    assert " 0 bad " in output


def test_a_reader_has_exact_match_f1_and_its_worst_answers(run, reader, questions):
    record = json.loads(run("evaluate", reader, questions, "--limit", "1", "--json").stdout)
    assert (record["questions"], record["way"]) == (1, "squad")
    assert 0 <= record["exact"] <= record["f1"] <= 100
    assert all(row["expected"] == ["Ada"] for row in record["worst"])
    assert "exact match: " in run("evaluate", reader, questions).stdout


def test_a_summariser_has_rouge_and_its_worst_summaries(run, tmp_path):
    tokenizer = Tokenizer.train([TEXT], "word", 20, lower=True)
    model = PointerGenerator(vocab=len(tokenizer), d_embed=6, hidden=8).eval()
    model.tokenizer = tokenizer
    start, end = tokenizer.bos_token_id, (tokenizer.eos_token_id,)
    model.generation = model.generation.replace(
        decoder_start_token_id=start, eos_token_id=end, max_new_tokens=3
    )
    model.save_pretrained(tmp_path / "model")
    data = tmp_path / "dev.jsonl"
    data.write_text(json.dumps({"text": TEXT, "summary": "A first program"}))
    record = json.loads(run("evaluate", str(tmp_path / "model"), str(data), "--json").stdout)
    assert record["texts"] == 1
    assert 0 <= record["rouge2"] <= record["rougeL"] <= record["rouge1"] <= 100
    assert record["worst"][0]["expected"] == "A first program"


def test_an_unknown_label_and_an_option_of_translators_are_refused(run, classifier, tmp_path):
    (tmp_path / "wrong.tsv").write_text("I love it\tgreat\n")
    result = run("evaluate", classifier, str(tmp_path / "wrong.tsv"))
    assert result.exit_code == 2
    assert "no label 'great'" in result.stderr
    result = run("evaluate", classifier, str(tmp_path / "wrong.tsv"), "--beam", "3")
    assert "--beam is for models that translate; this one labels texts" in result.stderr
