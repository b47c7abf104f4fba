"""`regard answer --base` prints answers with their sources, and refuses what is no base."""

import json

import pytest

pytest.importorskip("bm25s")


@pytest.fixture
def facts(tmp_path):
    path = tmp_path / "facts.tsv"
    path.write_text("姚明\t身高\t229厘米\n中国\t首都\t北京\n", encoding="utf-8")
    return path


def test_each_question_has_its_answer_and_source_in_a_line(run, facts):
    result = run("answer", "姚明的身高", "中国的首都", "which?", "--base", str(facts))
    lines = [line.split("\t") for line in result.stdout.splitlines()]
    assert [(line[0], line[-1]) for line in lines[:2]] == [
        ("229厘米", "facts.tsv:1"),
        ("北京", "facts.tsv:2"),
    ]
    assert lines[2][0] == "no answer"
    assert "facts.tsv: 2 triples" in result.stderr


def test_json_has_source_and_passage_and_quiet_says_no_more(run, facts):
    result = run("answer", "姚明的身高", "--base", str(facts), "--json", "--quiet")
    record = json.loads(result.stdout)
    assert (record["source"], record["passage"]) == ("facts.tsv:1", "姚明 | 身高 | 229厘米")
    assert result.stderr == ""


def test_questions_come_from_a_file_of_objects(run, facts, tmp_path):
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({"question": "姚明的身高"}) + "\n" + json.dumps({"question": ""}))
    result = run("answer", "--file", str(file), "--base", str(facts), "--json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert first["answer"] == "229厘米"
    assert second == {"answer": None, "score": None}


def fails(run, *arguments):
    result = run("answer", *map(str, arguments))
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    return result.stderr


def test_a_base_without_a_readable_file_is_refused(run, tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    assert "has no file that can be read" in fails(run, "Who?", "--base", tmp_path)
    assert "no knowledge base" in fails(run, "Who?", "--base", tmp_path / "none.tsv")


def test_an_empty_question_is_refused(run, facts):
    assert "empty" in fails(run, " ", "--base", facts)


def test_a_text_and_a_base_exclude_each_other(run, facts):
    assert "exclude each other" in fails(run, "Who?", "--base", facts, "--context", "Ada.")


def test_a_line_of_ten_megabytes_is_refused(run, tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\tc\n" + "x" * 10_000_000)
    assert "line 2: longer than 1,000,000 bytes" in fails(run, "Who?", "--base", tmp_path / "a.tsv")


def test_a_model_that_matches_nothing_is_refused(run, facts):
    message = fails(run, "姚明的身高", "--base", facts, "--model", "en-zh-rnn")
    assert "matches no relations" in message


@pytest.mark.parametrize(
    ("question", "printed", "reason"),
    [
        ("which?", "no answer", "the base has no answer"),
        ("When was Ada born?", "1815", "facts.tsv:1 was found by"),
    ],
)
def test_where_no_attention_was_computed_the_answer_is_printed_without_a_picture(
    run, tmp_path, question, printed, reason
):
    (tmp_path / "facts.tsv").write_text("Ada\tborn\t1815\n")
    out = tmp_path / "page.html"
    result = run("answer", question, "--base", str(tmp_path / "facts.tsv"), "--out", str(out))
    assert result.exit_code == 2
    assert result.stdout.startswith(printed)
    assert reason in result.stderr
    assert "--out" in result.stderr
    assert not out.exists()
