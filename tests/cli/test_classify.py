import json

import pytest

from regard.models import Tokenizer, Transformer

LABELS = ("bad", "good", "so so")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a classifier of our own and random weights."""
    tokenizer = Tokenizer.train(["I love you.", "我爱你。"] * 9, "bpe", 320, chinese="character")
    model = Transformer(
        kind="encoder", vocab=len(tokenizer), d_model=12, layers=1, heads=3, d_ff=17,
        head="classes", labels=3, label_names=LABELS, max_positions=31,
    )  # fmt: skip
    model.tokenizer = tokenizer
    folder = tmp_path_factory.mktemp("classifier")
    model.eval().save_pretrained(folder)
    return str(folder)


def test_one_text_is_drawn_with_the_probability_of_each_label(run, model):
    result = run("classify", "I love you.", "--model", model)
    assert result.exit_code == 0
    assert "love" in result.stdout
    assert all(label in result.stdout for label in LABELS)
    assert "head.attentive" in result.stdout


def test_the_picture_is_described_in_chinese(run, model):
    assert "关注的词元" in run("classify", "我爱你", "--model", model, "--lang", "zh").stdout


def test_several_texts_have_a_line_each(run, model):
    lines = run("classify", "I love you.", "我爱你。", "--model", model).stdout.splitlines()
    assert [line.split("\t")[2] for line in lines] == ["I love you.", "我爱你。"]
    assert all(line.split("\t")[0] in LABELS for line in lines)


def test_json_has_one_object_per_text_in_order(run, model):
    texts = ["I love you.", "我爱你。", "I love you. " * 30]
    result = run("classify", *texts, "--model", model, "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["text"] for record in records] == texts
    for record in records:
        assert {*record["scores"]} == {*LABELS}
        assert record["label"] == max(record["scores"], key=record["scores"].get)
    assert [record["windows"] > 1 for record in records] == [False, False, True]


def test_a_file_of_lines_keeps_its_empty_lines(run, model, tmp_path):
    (tmp_path / "texts.txt").write_text("I love you.\n\n我爱你。\n", encoding="utf-8")
    result = run("classify", "--file", str(tmp_path / "texts.txt"), "--model", model, "--json")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["label"] is None for record in records] == [False, True, False]


def test_a_file_of_objects_has_its_texts_in_the_field_text(run, model, tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": "I love you.", "id": 7}\n{"text": "我爱你。"}\n', encoding="utf-8")
    result = run("classify", "--file", str(file), "--model", model)
    assert len(result.stdout.splitlines()) == 2


@pytest.mark.parametrize("line", ['{"texts": "I"}', "[1]", "no json", '{"text": 3}'])
def test_a_wrong_object_is_refused_by_its_line(run, model, tmp_path, line):
    (tmp_path / "texts.jsonl").write_text(f'{{"text": "I"}}\n{line}\n')
    result = run("classify", "--file", str(tmp_path / "texts.jsonl"), "--model", model)
    assert result.exit_code == 2
    assert 'texts.jsonl, line 2: expected an object with the texts "text"' in result.stderr


@pytest.mark.parametrize("suffix", [".html", ".png", ".json"])
def test_the_picture_of_one_text_is_written(run, model, tmp_path, suffix):
    out = tmp_path / f"picture{suffix}"
    result = run("classify", "I love you.", "--model", model, "--out", str(out))
    assert result.stdout == f"{out}\n"
    assert out.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["I", "you", "--out", "a.html"], "--out draws one input, got 2"),
        (["I", "--out", "a.doc"], "cannot write 'a.doc'; expected a name that ends with"),
        (["I", "--out", "nowhere/a.html"], "there is no folder nowhere"),
        ([" "], "a text is empty"),
        (["x" * 1_000_001], "has 1,000,001 characters; expected at most 1,000,000"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(run, model, arguments, message):
    result = run("classify", *arguments, "--model", model)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_a_model_the_sentence_says_what_to_name(run, monkeypatch):
    monkeypatch.setattr("regard.tasks.models.shipped_models", lambda: ())
    result = run("classify", "I love you.")
    assert result.exit_code == 2
    assert "name one with --model, the folder or hub name of a ForSequenceClass" in result.stderr


def test_a_task_takes_the_shipped_model_for_the_language_of_the_text(run, model, monkeypatch):
    monkeypatch.setattr("regard.tasks.models.shipped_models", lambda: (model,))
    monkeypatch.setattr("regard.tasks.models.DEFAULT_MODELS", {"topic": {"en": model}})
    result = run("classify", "I love you.", "--task", "topic", "--json")
    assert json.loads(result.stdout)["model"] == model
    looked = run("look", "I love you.", "--task", "topic")
    assert all(part in looked.stdout for part in ("love", "head.attentive"))
    monkeypatch.setattr("regard.tasks.evidence.EXPLAINED_MODELS", (model,))  # shaded by occlusion
    record = json.loads(run("look", "I love you.", "--task", "topic", "--json").stdout)
    assert record["shown"]["site"] == "head.attentive"
    assert {*record["result"]["scores"]} == {*LABELS}
    refused = run("classify", "我爱你。", "--task", "topic")
    assert refused.exit_code == 2
    assert "the shipped models for topic read English" in refused.stderr


def test_a_model_of_another_task_is_refused(run):
    result = run("classify", "I love you.", "--model", "en-zh-rnn")
    assert result.exit_code == 2
    assert "en-zh-rnn (Recurrent) gives texts no classes" in result.stderr


def test_the_texts_before_one_that_is_refused_have_their_results(run, model, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("I love you.\n\nyou\n" + "x" * 1_000_001 + "\nI\n")
    result = run("classify", "--file", str(file), "--model", model)
    assert result.exit_code == 2
    assert [line.split("\t")[-1] for line in result.stdout.splitlines()] == [
        "I love you.",
        "",
        "you",
    ]
    assert result.stderr.startswith("regard: input 4: a text has 1,000,001 characters; ")


def test_an_object_may_have_line_separators_and_an_empty_line_stays_empty(run, model, tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": "I love\u2028you."}\n\n{"text": "you"}\n\n', encoding="utf-8")
    result = run("classify", "--file", str(file), "--model", model, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row.get("text") for row in rows] == ["I love\u2028you.", None, "you"]


def test_an_empty_text_has_no_picture(run, model, tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text('{"text": " "}\n')
    out = str(tmp_path / "a.html")
    result = run("classify", "--file", str(file), "--model", model, "--out", out)
    assert result.exit_code == 2
    assert "the input is empty" in result.stderr


def test_a_task_beside_a_model_is_refused_by_the_name_of_the_option(run, model):
    result = run("classify", "I", "--model", model, "--task", "topic")
    assert result.exit_code == 2
    assert "--task is for the shipped models; leave it out where --model is named" in result.stderr
