"""A task's result: the answer, its alternatives, its trace, and its JSON."""

import json

import pytest
import torch

from regard.errors import InputError
from regard.types import Candidate, InputWindow, TaskResult, Trace

POSITIVE, NEGATIVE = Candidate("positive", 0.75), Candidate("negative", 0.25)


def a_class(**parts) -> TaskResult:
    text = {"text": "I love it"}
    return TaskResult("classification", "tiny", text, (POSITIVE, NEGATIVE), **parts)


def an_answer(*candidates: Candidate) -> TaskResult:
    inputs = {"question": "Who?", "context": "Ada wrote it."}
    return TaskResult("answering", "tiny", inputs, candidates, source="notes.txt")


def test_the_first_candidate_is_the_answer_and_the_others_are_alternatives():
    result = a_class()
    assert (result.answer, result.score, result.span) == ("positive", 0.75, None)
    assert result.alternatives == (NEGATIVE,)


def test_a_class_as_json_has_its_label_and_the_scores_of_all_labels():
    record = json.loads(json.dumps(a_class(windows=(InputWindow(0, 9),)).to_json()))
    assert record == {
        "model": "tiny",
        "text": "I love it",
        "label": "positive",
        "score": 0.75,
        "scores": {"positive": 0.75, "negative": 0.25},
        "windows": 1,
    }


def test_an_answer_as_json_has_its_place_and_source_but_not_the_whole_context():
    record = an_answer(Candidate("Ada", 0.5, (0, 3)), Candidate(None, 0.1)).to_json()
    assert "context" not in record
    assert [record[key] for key in ("answer", "start", "end", "source")] == [
        "Ada", 0, 3, "notes.txt",
    ]  # fmt: skip
    assert record["alternatives"] == [{"text": None, "score": 0.1, "start": None, "end": None}]


def test_no_answer_is_none_and_says_so():
    result = an_answer(Candidate(None, 0.5), Candidate("Ada", 0.25, (0, 3)))
    assert result.answer is None
    assert result.scores == {"Ada": 0.25}
    assert repr(result) == "<TaskResult of answering by tiny: no answer (0.5)>"


def test_a_long_answer_is_cut_in_its_repr():
    assert "…'" in repr(an_answer(Candidate("word " * 20, 0.5)))


def test_the_trace_is_that_of_the_decisive_window():
    traces = [Trace.from_weights(torch.eye(size), list("abcde")[:size]) for size in (3, 5)]
    windows = (InputWindow(0, 3, traces[0]), InputWindow(2, 5, traces[1]))
    assert a_class(windows=windows, decisive=1).trace is traces[1]


@pytest.mark.parametrize("windows", [(), (InputWindow(0, 9),)])
def test_a_result_without_a_trace_says_how_to_get_one(windows):
    with pytest.raises(InputError, match="no trace; run the task with trace=True"):
        a_class(windows=windows).trace  # noqa: B018


def test_a_result_needs_a_candidate():
    with pytest.raises(InputError, match="at least one candidate, got none"):
        an_answer()


def test_a_notebook_shows_the_candidates_as_a_table_of_harmless_text():
    shown = an_answer(Candidate("<b>", 0.75), Candidate(None, 0.25))._repr_html_()
    assert "<td>&lt;b&gt;</td><td>0.75</td>" in shown
    assert "<td>no answer</td><td>0.25</td>" in shown
