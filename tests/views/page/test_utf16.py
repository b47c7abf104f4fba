import numpy as np
import pytest

from regard.views.page.utf16 import Characters, from_units

FORBIDDEN = [0x0000, 0x000D, 0x003C, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xFEFF, 0xFFFE, 0xFFFF]


def to_units(data):
    return Characters.of(data).units()


@pytest.mark.parametrize("length", [0, 1, 2, 131])
def test_bytes_come_back_from_their_characters(length):
    data = np.random.default_rng(3).integers(0, 256, length, np.uint8).tobytes()
    assert from_units(to_units(data), length) == data


@pytest.mark.parametrize("length", [0, 1, 2, 9973])
def test_the_length_of_a_text_is_known_before_it_is_written(length):
    data = np.random.default_rng(7).integers(0, 256, length, np.uint8).tobytes()
    assert len(Characters.of(data)) == len(to_units(data))


def test_every_number_of_sixteen_bits_comes_back():
    data = np.arange(65536, dtype="<u2").tobytes()
    assert from_units(to_units(data), len(data)) == data


def test_no_character_is_one_that_a_page_changes_or_ends_at():
    units = to_units(np.arange(65536, dtype="<u2").tobytes())
    assert not {*FORBIDDEN} - {0xE000} & {*units.tolist()}
    assert not ((units >= 0xD800) & (units < 0xE000)).any()


def test_the_characters_survive_being_a_file():
    units = to_units(np.arange(65536, dtype="<u2").tobytes())
    text = units.astype("<u2").tobytes().decode("utf-16-le")
    assert np.frombuffer(text.encode("utf-16-le"), "<u2").tolist() == units.tolist()


def test_random_bytes_grow_by_little_more_than_three_percent():
    data = np.random.default_rng(5).integers(0, 256, 99991, np.uint8).tobytes()
    assert 1.03 < 2 * len(to_units(data)) / len(data) < 1.034
