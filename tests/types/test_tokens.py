import pytest

from regard.errors import InputError
from regard.types import Tokens


def a_stream():
    return Tokens(
        ("<s>", "我", "爱", "中国", "</s>"),
        ids=(1, 11, 13, 17, 2),
        offsets=((0, 0), (0, 1), (1, 2), (2, 4), (0, 0)),
        words=(None, 0, 1, 2, None),
        special=(True, False, False, False, True),
        grid=(1, 5),
    )


def test_a_slice_keeps_every_part_of_its_tokens():
    assert a_stream()[1:3] == Tokens(
        ("我", "爱"), (11, 13), ((0, 1), (1, 2)), (0, 1), (False, False)
    )


def test_places_may_come_in_any_order_and_more_than_once():
    assert a_stream()[[3, 0, 3]].ids == (17, 1, 17)


def test_the_whole_slice_is_the_same_value():
    assert a_stream()[:] == a_stream()


def test_only_the_whole_picture_has_a_grid():
    assert a_stream()[:].grid == (1, 5)
    assert a_stream()[1:].grid is None


def test_what_is_not_known_stays_unknown_in_a_slice():
    assert Tokens(("a", "b", "c"))[1:] == Tokens(("b", "c"))


def test_no_tokens_are_a_stream_too():
    assert len(a_stream()[5:]) == 0
    assert repr(a_stream()[5:]) == "Tokens()"


def test_one_place_is_its_text():
    tokens = Tokens(("我", "爱", "中国"))
    assert [tokens[place] for place in range(3)] == list(tokens)
    assert tokens[-1] == "中国"


def test_tokens_iterate_over_their_texts():
    assert list(a_stream()) == ["<s>", "我", "爱", "中国", "</s>"]


@pytest.mark.parametrize(
    ("part", "value"),
    [("ids", (1,)), ("offsets", ((0, 1),)), ("words", (None,)), ("special", (True,))],
)
def test_each_part_needs_as_many_as_there_are_texts(part, value):
    with pytest.raises(InputError, match=f"Tokens expected {part} for each of 3 texts, got 1"):
        Tokens(("a", "b", "c"), **{part: value})


def test_positions_count_from_their_start_and_name_nothing():
    stream = Tokens.positions(3, start=5)
    assert stream.texts == ("5", "6", "7")
    assert not stream.named


def test_a_slice_of_positions_still_names_nothing():
    assert repr(Tokens.positions(11)[2:5]) == "Tokens(2 .. 4)"


def test_no_positions_are_shown_as_none():
    assert repr(Tokens.positions(0)) == "Tokens()"


def test_a_long_stream_shows_its_first_tokens():
    assert repr(Tokens(tuple("abcdefghijk"))) == (
        "Tokens('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', …)"
    )


def test_a_short_stream_shows_all_of_its_tokens():
    assert repr(Tokens(("我", "爱\n"))) == "Tokens('我', '爱\\n')"
