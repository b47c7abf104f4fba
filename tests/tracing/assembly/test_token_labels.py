import pytest

from regard.tracing.assembly.streams import Stream
from regard.tracing.assembly.token_labels import BlockInfo, TokenLabels, label_tokens
from regard.types import Tokens


def words(count):
    return Tokens(tuple(f"word {n}" for n in range(count)))


def stream(name, length, *, begun="model", decoded=False, real=None):
    return Stream(name, begun, length, (real or range(length),), decoded)


def named(streams, *, grids=None, **tokens):
    return label_tokens(streams, 0, 1, BlockInfo(TokenLabels((tokens,)), grids))


def test_a_stream_takes_the_tokens_of_its_name():
    found = named([stream("source", 5), stream("target", 7)], source=words(5), target=words(7))
    assert found == {"source": words(5), "target": words(7)}


def test_streams_stay_in_their_order():
    assert list(named([stream("a", 3), stream("source", 5)], source=words(5))) == ["a", "source"]


def test_padding_has_no_token():
    found = named([stream("tokens", 7, real=range(2, 7))], tokens=words(5))
    assert found["tokens"] == words(5)


def test_a_decoded_stream_may_have_one_token_more_than_rows():
    assert named([stream("target", 5, decoded=True)], target=words(6))["target"] == words(6)


@pytest.mark.parametrize("count", [4, 7])
def test_tokens_of_another_number_are_no_labels(count):
    found = named([stream("target", 5, decoded=True)], target=words(count))
    assert found["target"] == Tokens.positions(5)


def test_only_what_is_decoded_produces_a_token():
    assert named([stream("source", 5)], source=words(6))["source"] == Tokens.positions(5)


def test_a_stream_of_another_name_takes_the_tokens_that_fit():
    found = named([stream("text_model", 5)], tokens=words(5), source=words(7))
    assert found["text_model"] == words(5)


def test_of_tokens_that_fit_those_not_yet_used_are_taken():
    streams = [stream("text_model", 5), stream("source", 5)]
    found = named(streams, source=words(5), target=Tokens(("a", "b", "c", "d", "e")))
    assert found["text_model"].texts == ("a", "b", "c", "d", "e")


def test_where_two_fit_neither_is_a_label():
    found = named([stream("text_model", 5)], one=words(5), other=words(5))
    assert found["text_model"] == Tokens.positions(5)


def test_tokens_for_another_number_of_examples_are_no_labels():
    notes = BlockInfo(TokenLabels(({"tokens": words(5)}, {"tokens": words(5)})))
    assert label_tokens([stream("tokens", 5)], 0, 1, notes) == {"tokens": Tokens.positions(5)}


def test_a_trace_has_no_tokens_of_a_stream_that_it_lacks():
    lacking = Stream("image", "vision", 7, (None,))
    assert label_tokens([lacking, stream("text", 5)], 0, 1, BlockInfo()) == {
        "text": Tokens.positions(5)
    }


def test_patches_are_called_by_row_and_column():
    found = named([stream("tokens", 6)], grids={"model": (2, 3)})["tokens"]
    assert found.texts == ("0,0", "0,1", "0,2", "1,0", "1,1", "1,2")
    assert found.grid == (2, 3)
    assert not any(found.special)


def test_tokens_before_the_patches_are_special():
    found = named([stream("tokens", 8)], grids={"model": (2, 3)})["tokens"]
    assert found.texts[:3] == ("[0]", "[1]", "0,0")
    assert found.special == (True, True, *[False] * 6)


@pytest.mark.parametrize(("length", "grid"), [(15, (3, 5)), (6, (2, 3)), (2, (1, 2))])
def test_a_grid_halves_where_patches_were_merged(length, grid):
    found = named([stream("tokens", length)], grids={"model": (3, 5)})
    assert found["tokens"].grid == grid


@pytest.mark.parametrize("length", [7, 31])
def test_what_a_grid_does_not_explain_has_positions(length):
    found = named([stream("tokens", length)], grids={"model": (3, 5)})
    assert found["tokens"] == Tokens.positions(length)


def test_windows_of_a_picture_are_neither_words_nor_the_grid():
    found = named(
        [stream("tokens", 6, begun="model window")], tokens=words(6), grids={"model": (2, 3)}
    )
    assert found["tokens"] == Tokens.positions(6)


def test_words_are_not_patches_of_the_same_number():
    found = named([stream("image", 6)], tokens=words(6), grids={"model": (2, 3)})
    assert found["image"].grid == (2, 3)
