"""JSON and TOML from anywhere become values of known types, or one sentence."""

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import pytest

from regard.documents import (
    MAX_DEPTH,
    AnyFloat,
    check_record,
    check_value,
    parse_json,
    quote_value,
    read_json,
    read_toml,
)
from regard.errors import FileError, InputError, UnknownNameError


class Place(TypedDict):
    epoch: int
    name: str


class State(TypedDict):
    place: Place
    sizes: list[tuple[int, float]]


@dataclass
class Sizes:
    width: int
    depth: int = 2


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_a_document_of_the_largest_depth_is_read():
    assert parse_json(nested(MAX_DEPTH), "it") is not None


@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 500, 100_000])
def test_a_deeper_document_is_refused_in_one_sentence(depth):
    with pytest.raises(InputError, match="it is nested too deeply: expected at most 64"):
        parse_json(nested(depth), "it")


@pytest.mark.parametrize(
    "text",
    [
        "a = " + nested(100_000),
        "a" + ".a" * 100_000 + " = 1",
        "[a" + ' . "a"' * 100_000 + "]",
        "a = " + "{a = " * 5000 + "1" + "}" * 5000,
    ],
)
def test_a_deep_toml_file_is_refused_in_one_sentence(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(FileError, match=r"recipe.toml is nested too deeply"):
        read_toml(path)


@pytest.mark.parametrize("content", [b"a = \xff", b"a = ", b"a = 1" + 5000 * b"0"])
def test_what_is_no_toml_is_refused(tmp_path, content):
    path = tmp_path / "recipe.toml"
    path.write_bytes(content)
    with pytest.raises(FileError, match="is no TOML"):
        read_toml(path)


def test_a_number_of_thousands_of_digits_is_refused():
    with pytest.raises(InputError, match="line 3 has a number with too many digits"):
        parse_json("1" * 5000, "line 3")


def test_bytes_that_are_not_utf_8_are_refused():
    with pytest.raises(InputError, match=r"it is not UTF-8 text \(byte 1\)"):
        parse_json(b'"\xff"', "it")


def test_nan_and_infinity_are_parsed_and_the_last_of_two_keys_counts():
    assert parse_json('{"a": NaN, "a": -Infinity}', "it") == {"a": float("-inf")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "no whole JSON file .*; fetch it again"),
        (b"[1]", "should hold a JSON object, got list"),
        (b'{"a": "' + 50 * b"x" + b'"}', "has more than 40 bytes"),
    ],
)
def test_a_file_without_a_whole_object_is_refused(tmp_path, content, message):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match=message):
        read_json(path, max_bytes=40, advice="fetch it again")


@pytest.mark.parametrize("name", ["missing.json", ".", "zero\0byte"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name):
    with pytest.raises(FileError, match="cannot read"):
        read_json(tmp_path / name)


def test_a_record_of_the_right_types_is_accepted():
    record = {"place": {"epoch": 1, "name": "a"}, "sizes": [[1, 2], (3, 0.5)]}
    record["sizes"] = [tuple(pair) for pair in record["sizes"]]
    check_record("the state", record, State)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ([], "the state should be an object, got"),
        ({"sizes": []}, "the state lacks place"),
        ({"place": {"epoch": 1}}, r"the state lacks place\.name"),
        ({"place": None}, "the state expected place to be an object, got None"),
        ({"place": {"epoch": 0.5, "name": ""}}, r"place\.epoch to be a whole number, got 0\.5"),
        ({"place": {"epoch": 2**64, "name": ""}}, r"place\.epoch to be a whole number, got 1844"),
        ({"place": {"epoch": True, "name": ""}}, r"place\.epoch to be a whole number, got True"),
    ],
)
def test_a_field_of_another_type_is_named(record, message):
    with pytest.raises(InputError, match=message):
        check_record("the state", record, State)


@pytest.mark.parametrize(
    ("value", "hint", "message"),
    [
        ([1, "x"], list[int], r"expected n\[1\] to be a whole number, got 'x'"),
        ({"a": "x"}, dict[str, int], r"expected n\['a'\] to be a whole number"),
        ({1: 2}, dict[str, int], "expected a key of n to be text, got 1"),
        ((1,), tuple[int, int], "expected n to have 2 items, got 1"),
        (float("nan"), float, "expected n to be a number, got nan"),
        (10**400, float, "expected n to be a number, got 1000"),
        ("x", int | None, "expected n to be a whole number or null, got 'x'"),
        ({}, list[int], "expected n to be a list, got {}"),
        (3, Literal["a", "b"], "expected n to be one of 'a', 'b', got 3"),
        ("x", Literal[False], "expected n to be one of False, got 'x'"),
    ],
)
def test_a_value_of_another_type_is_refused(value, hint, message):
    with pytest.raises(InputError, match=message):
        check_value("it", "n", value, hint)


def test_a_name_that_is_no_choice_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'cosine'"):
        check_value("Plan", "schedule", "cosin", Literal["cosine", "constant"])


@pytest.mark.parametrize(
    ("value", "hint"),
    [(1, float), (float("inf"), AnyFloat), ([[1, 2.5]], list[list[float]]), ({}, Any)],
)
def test_a_value_of_the_type_is_accepted(value, hint):
    check_value("it", "n", value, hint)


def test_the_fields_of_a_dataclass_without_default_are_needed():
    check_record("it", {"width": 3}, Sizes)
    with pytest.raises(InputError, match="it lacks width"):
        check_record("it", {"depth": 3}, Sizes)


def test_a_message_quotes_the_beginning_of_a_long_value():
    assert len(quote_value("x" * 10**6)) == 80
    assert quote_value(1 << 100_000) == "a number with too many digits"
