import json

import pytest

from regard.models import Tokenizer, Transformer

TEXT = "Ada wrote the first program."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a reader of our own and random weights."""
    tokenizer = Tokenizer.train([TEXT, "谁写的？"] * 9, "bpe", 320, chinese="character")
    model = Transformer(
        kind="encoder", vocab=len(tokenizer), d_model=12, layers=2, heads=3, d_ff=17, head="spans",
        max_positions=41,
    )  # fmt: skip
    model.tokenizer = tokenizer
    folder = tmp_path_factory.mktemp("reader")
    model.eval().save_pretrained(folder)
    return str(folder)


def records(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_one_question_is_drawn_with_its_answer_in_brackets(run, model):
    result = run("answer", "Who?", "--context", TEXT, "--model", model, "--must-answer")
    assert result.stdout.startswith("Who? → ")
    assert "[" in result.stdout


def test_json_has_the_place_of_the_answer_in_the_text(run, model):
    questions = ["Who?", "What?"]
    result = run(
        "answer", *questions, "--context", TEXT, "--model", model, "--json", "--must-answer"
    )
    assert [record["question"] for record in records(result)] == questions
    for record in records(result):
        assert TEXT[record["start"] : record["end"]] == record["answer"]
        assert 0 < record["score"] <= 1
        assert record["source"] is None


def test_a_context_that_is_a_file_is_read_and_is_the_source(run, model, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text(f"{TEXT}\n" * 9, encoding="utf-8")
    (record,) = records(run("answer", "Who?", "--context", str(file), "--model", model, "--json"))
    assert record["source"] == str(file)
    assert record["windows"] > 1


def test_questions_with_their_contexts_come_from_a_file_of_objects(run, model, tmp_path):
    file = tmp_path / "questions.jsonl"
    lines = [{"question": "Who?", "context": TEXT}, {"question": "", "context": TEXT}]
    file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    first, second = records(run("answer", "--file", str(file), "--model", model, "--json"))
    assert first["question"] == "Who?"
    assert second == {"answer": None, "score": None}


def test_the_lines_of_a_file_are_questions_about_one_context(run, model, tmp_path):
    (tmp_path / "questions.txt").write_text("Who?\nWhat?\n")
    arguments = ["--file", str(tmp_path / "questions.txt"), "--context", TEXT]
    lines = run("answer", *arguments, "--model", model).stdout.splitlines()
    assert [line.split("\t")[2] for line in lines] == ["Who?", "What?"]


def test_the_picture_is_written_as_a_page(run, model, tmp_path):
    out = tmp_path / "page.html"
    run("answer", "Who?", "--context", TEXT, "--model", model, "--out", str(out))
    assert out.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Who?"], "no text to find the answer in; give --context TEXT"),
        (["Who?", "--context", " "], "a text is empty"),
        (["--context", "-"], "--context - reads the text from stdin; give a QUESTION"),
        ([" ", "--context", TEXT], "a text is empty"),
        (["program " * 40, "--context", TEXT], "shorten the question"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(run, model, arguments, message):
    result = run("answer", *arguments, "--model", model)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_a_model_the_sentence_says_what_to_name(run, monkeypatch):
    monkeypatch.setattr("regard.tasks.models.shipped_models", lambda: ())
    result = run("answer", "Who?", "--context", TEXT)
    assert result.exit_code == 2
    assert (
        "name one with --model, the folder or hub name of a ForQuestionAnswering" in result.stderr
    )


def test_a_context_that_ends_as_a_file_does_must_be_one(run, model):
    result = run("answer", "who?", "--context", "nowhere.txt", "--model", model)
    assert result.exit_code == 2
    assert "there is no file nowhere.txt" in result.stderr


def test_the_answers_before_a_question_without_context_are_printed(run, model, tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text(
        '{"question": "who?", "context": "I love you."}\n{"question": "who?", "context": ""}\n'
    )
    result = run("answer", "--file", str(file), "--model", model, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["question"] == "who?"
    assert result.stderr == "regard: input 2: the context is empty; give some text\n"
