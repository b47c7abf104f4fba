"""The picture of a result: its text shaded by the weights of the answer, which is underlined."""

import pytest
import torch

import regard
from regard.errors import InputError
from regard.types import Candidate, Evidence, InputWindow, TaskResult, Tokens, Trace
from regard.views import View
from regard.views.scene.build import build_scene, mark_tokens

WORDS = ("[CLS]", "I", "love", "it", "[SEP]")
WEIGHTS = torch.tensor([0.1, 0.1, 0.3, 0.2, 0.3])


def a_trace() -> Trace:
    special = (True, False, False, False, True)
    tokens = Tokens(WORDS, words=(None, 0, 1, 2, None), special=special)
    weights = torch.full((2, 5, 5), 0.2)
    weights[:, 0] = WEIGHTS
    trace = Trace.from_weights(weights, list(WORDS))
    (name,) = trace.streams
    return Trace({name: tokens}, trace.maps)


FIRST_ROW = Evidence("weights", (0,))


def a_class(evidence: Evidence | None = FIRST_ROW) -> TaskResult:
    candidates = (Candidate("good", 0.75), Candidate("bad", 0.25))
    windows = (InputWindow(0, 9, a_trace()),)
    return TaskResult(
        "classification", "tiny", {"text": "I love it"}, candidates, windows, evidence=evidence
    )


def an_answer(text: str | None) -> TaskResult:
    inputs = {"question": "What?", "context": "I love it"}
    marked = (2,) if text else (0,)
    return TaskResult(
        "answering", "tiny", inputs, (Candidate(text, 0.5),), (InputWindow(0, 9, a_trace()),),
        evidence=Evidence("weights", marked, marked),
    )  # fmt: skip


def test_the_words_are_shaded_by_the_rows_of_the_evidence_without_special_tokens():
    numbers = regard.view(a_class()).numbers
    assert [word.text for word in numbers.words] == ["I", "love", "it"]
    expected = (WEIGHTS[1:4] / WEIGHTS[1:4].sum()).tolist()
    assert [word.weight for word in numbers.words] == pytest.approx(expected, abs=1e-3)


def test_evidence_without_rows_is_the_mean_of_all_rows():
    numbers = regard.view(a_class(Evidence("weights"))).numbers
    mean = (WEIGHTS + 4 * 0.2) / 5
    expected = (mean[1:4] / mean[1:4].sum()).tolist()
    assert [word.weight for word in numbers.words] == pytest.approx(expected, abs=1e-3)


def test_the_title_is_the_answer_with_its_probability():
    assert regard.view(a_class()).scene.title == "good (75.0%)"
    assert regard.view(an_answer("love")).scene.title == "What? → love (50.0%)"
    assert regard.view(an_answer(None), language="zh").scene.title == "What? → 没有答案 (50.0%)"


def test_a_space_stands_between_the_question_and_the_text():
    tokens = Tokens(("Who", "?", "Ada"), offsets=((0, 3), (3, 4), (4, 7)), words=(0, 1, 2))
    trace = Trace({"tokens": tokens}, Trace.from_weights(torch.eye(3), ["a", "b", "c"]).maps)
    result = TaskResult(
        "answering", "tiny", {"question": "Who?", "context": "Ada"}, (Candidate("Ada", 1.0),),
        (InputWindow(0, 3, trace),), evidence=Evidence("weights", (2,), (2,)),
    )  # fmt: skip
    words = regard.view(result).numbers.words
    assert [word.spaced for word in words] == [False, False, True]


def test_the_words_of_an_answer_are_marked_in_the_terminal():
    assert "[love]" in str(regard.view(an_answer("love")))
    assert "[" not in str(regard.view(a_class()))


def test_a_saved_view_keeps_its_marks(tmp_path):
    view = View.load(regard.view(an_answer("love")).save(tmp_path / "view.json"))
    assert [word.marked for word in view.numbers.words] == [False, True, False]


@pytest.mark.parametrize("suffix", [".html", ".png", ".svg"])
def test_a_result_is_saved_as_page_and_figure(tmp_path, suffix):
    assert regard.view(an_answer("love")).save(tmp_path / f"view{suffix}").stat().st_size > 1000


def test_other_kinds_and_sites_show_the_trace_of_the_result():
    assert repr(regard.view(a_class(), "heatmap", site="weights")) == "<heatmap view of 'weights'>"
    assert regard.view(a_class(), "highlight", site="weights", query="love").state.place == 2


def test_a_result_without_attention_has_no_picture():
    with pytest.raises(InputError, match="this result has no attention that can be shown"):
        regard.view(a_class(None))


def test_a_mark_outside_of_the_stream_is_refused():
    scene = build_scene(a_trace())
    with pytest.raises(InputError, match="no token 5 to mark in 'tokens'; it has 0 to 4"):
        mark_tokens(scene, "tokens", (5,))
    with pytest.raises(InputError, match="no stream 'token'; did you mean 'tokens'"):
        mark_tokens(scene, "token", (0,))
