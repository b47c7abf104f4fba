import re
from string import Formatter

from regard.diagnosis import CHECKS
from regard.text import sentences


def fields(text):
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_no_saying_is_left_over():
    keys = [key.split(".") for key in sentences("diagnosis")["en"]]
    assert {name for _, name, *_ in keys} - {"text", "often"} == {*CHECKS}


def test_both_languages_are_made_of_the_same_numbers():
    for name, check in CHECKS.items():
        english, chinese = (fields(check.said[each].sentence) for each in ("en", "zh"))
        assert english == chinese, name


def test_every_sentence_has_its_value_and_its_limit():
    for name, check in CHECKS.items():
        wanted = {"value"} if name.startswith("summary") else {"value", "limit"}
        assert wanted <= fields(check.said["en"].sentence), name


def test_every_alarm_says_what_it_means_and_what_to_do():
    for name, check in CHECKS.items():
        for saying in check.said.values():
            assert saying.meaning, name
            assert saying.remedy or check.severity == "observation", name


def test_names_are_words_that_a_command_line_can_carry():
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in CHECKS)
