"""Long texts become windows that overlap, cover the text, and fit into the model's context."""

import itertools
from dataclasses import replace

import pytest

from regard.errors import InputError
from regard.tasks.windows import MOST_CHARACTERS, WindowSplitter, check_text
from tasks.tiny_models import a_classifier

SENTENCE = "I love playing chess, and playing football. "


@pytest.fixture(scope="module")
def model():
    return a_classifier(positions=31)


def test_a_short_text_is_one_window(model):
    (window,) = WindowSplitter(model).split("I love you.")
    assert (window.start, window.stop) == (0, 11)


@pytest.mark.parametrize("question", [None, "you love"])
@pytest.mark.parametrize("text", [SENTENCE * 13, "我爱中国，" * 41, "chess" * 67])
def test_windows_cover_the_text_overlap_and_fit(model, text, question):
    windows = WindowSplitter(model).split(text, question)
    assert windows[0].start == 0
    assert windows[-1].stop == len(text.rstrip())
    for first, second in itertools.pairwise(windows):
        assert first.start < second.start < first.stop < second.stop
    for start, stop, _ in windows:
        parts = (text[start:stop],) if question is None else (question, text[start:stop])
        assert len(model.tokenizer(*parts)["input_ids"]) <= 31


def test_windows_begin_and_end_between_words(model):
    text = SENTENCE * 13
    for start, stop, _ in WindowSplitter(model).split(text):
        assert start == 0 or text[start - 1] == " "
        assert stop >= len(text) - 1 or text[stop] == " "


def test_a_question_that_fills_the_context_is_refused(model):
    with pytest.raises(InputError, match=r"the question has .* tokens and tiny reads 31 at once"):
        WindowSplitter(model).split("I love you.", "chess " * 30)


def test_a_tokenizer_without_places_is_refused(model):
    class Slow:
        is_fast = False

    with pytest.raises(InputError, match="does not tell where its tokens are; take a model with"):
        WindowSplitter(replace(model, processor=Slow())).split("I love you.")


def test_a_text_without_tokens_is_refused(model):
    with pytest.raises(InputError, match="makes no token of"):
        WindowSplitter(model).split("\u200b")


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_text_is_refused(text):
    with pytest.raises(InputError, match="a text is empty; give some text"):
        check_text(text, "a text")


def test_a_text_of_ten_megabytes_is_refused():
    with pytest.raises(InputError, match="has 10,000,000 characters; expected at most 1,000,000"):
        check_text("word " * 2_000_000, "a text")
    assert len(check_text("a" * MOST_CHARACTERS, "a text")) == MOST_CHARACTERS


def test_a_model_may_ask_for_shorter_windows_than_its_context():
    text = "I love you. " * 20
    whole, short = a_classifier(), replace(a_classifier(), window=11)
    assert len(WindowSplitter(short).split(text)) > len(WindowSplitter(whole).split(text))
    assert all(each.tokens <= 9 for each in WindowSplitter(short).split(text))
