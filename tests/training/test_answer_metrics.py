"""Exact match and F1 count as the official evaluations of SQuAD and CMRC 2018 do."""

import pytest

from regard.errors import InputError
from regard.training.answer_metrics import answer_metrics, cmrc_f1, squad_f1


@pytest.mark.parametrize(
    ("predicted", "gold", "f1"),
    [
        ("The Eiffel Tower", "Eiffel tower.", 1.0),
        ("in Paris, France", "Paris", 0.5),
        ("blue", "red", 0.0),
        ("the the", "a", 1.0),  # both are empty without articles
        ("the", "red", 0.0),
        ("red red blue", "red blue blue", 4 / 6),
    ],
)
def test_squad_counts_words_without_case_articles_and_punctuation(predicted, gold, f1):
    assert squad_f1(predicted, gold) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("predicted", "gold", "f1"),
    [
        ("北京。", "北京", 1.0),
        ("在北京大学", "北京大学", 8 / 9),
        ("北大京", "北京", 2 / 5),  # a run, and no set of characters
        ("1998 年", "1998年", 1.0),
        ("《红楼梦》", "红楼梦", 1.0),
        ("。", "红", 0.0),
    ],
)
def test_cmrc_counts_the_longest_common_run_of_characters(predicted, gold, f1):
    assert cmrc_f1(predicted, gold) == pytest.approx(f1)


def test_the_best_of_several_true_answers_counts():
    metrics = answer_metrics(["two cats", "red"], [["two", "two cats"], ["blue"]])
    assert (metrics.exact, metrics.f1, metrics.way) == (50.0, 50.0, "squad")


def test_no_answer_is_right_where_there_is_none():
    metrics = answer_metrics([None, None, "red"], [[], ["red"], []])
    assert metrics.exact == pytest.approx(100 / 3)


def test_chinese_answers_are_counted_by_characters():
    assert answer_metrics(["在北京"], [["北京"]]).way == "cmrc"


def test_there_is_an_answer_to_each_question():
    with pytest.raises(InputError, match="got 1 answers and 2 questions"):
        answer_metrics(["a"], [["a"], ["b"]])
