import pytest

from regard.tracing.inputs.spelling import Spelling, boundary, spell, visible
from tracing import readers

PLAIN = Spelling()


def shown(pieces, spelling=PLAIN):
    return spell(pieces, spelling, [False] * len(pieces)).texts


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [
        (readers.byte_level, Spelling(byte_level=True)),
        (readers.word_piece, Spelling(continued=True, apart=True)),
        (readers.unigram, Spelling()),
        (readers.byte_fallback, Spelling(fallback=True)),
        (readers.Slow, Spelling()),
    ],
)
def test_the_spelling_of_a_tokenizer_is_found_by_asking_it(tokenizer, expected):
    assert Spelling.of(tokenizer()) == expected


def test_a_tokenizer_that_has_only_a_backend_is_asked_there():
    class Thin:
        backend_tokenizer = readers.byte_level().backend_tokenizer

    assert Spelling.of(Thin()).byte_level


def test_a_tokenizer_that_refuses_unknown_pieces_has_no_spelling():
    class Strict:
        def convert_tokens_to_string(self, pieces):
            raise KeyError(pieces[0])

    assert Spelling.of(Strict()) == PLAIN


def test_a_character_that_is_spread_over_pieces_is_shown_in_each():
    first, second, third = (bytes([each]) for each in "我".encode())
    assert shown([b"a", first, second, third]) == ("a", "我[1/3]", "我[2/3]", "我[3/3]")


def test_a_piece_may_end_one_character_and_begin_another():
    data = "我爱".encode()
    assert shown([data[:2], data[2:4], data[4:]]) == ("我[1/2]", "我[2/2]爱[1/2]", "爱[2/2]")


def test_a_mark_at_the_end_of_a_word_ends_it():
    spelled = spell(["lo", "ve</w>", "you</w>"], PLAIN, [False] * 3)
    assert spelled.words([False] * 3) == (0, 0, 1)


def test_pieces_that_are_bytes_already_stay_so():
    assert Spelling(byte_level=True).read(b"\xe6", literal=False) == b"\xe6"


def test_a_special_piece_stands_for_no_text_also_if_it_is_bytes():
    spelled = spell([b"a", b"</s>", b"\x88"], PLAIN, [False, True, False])
    assert (spelled.texts, spelled.whole) == (("a", "</s>", "<0x88>"), "a\ufffd")
    assert spelled.spans == ((0, 1), (0, 0), (1, 2))


def test_bytes_that_make_no_character_are_shown_as_bytes():
    assert shown([b"\xe6\x88", b"a\xff"]) == ("<0xE6><0x88>", "a<0xFF>")


@pytest.mark.parametrize("text", ["naïve Ω", "我爱中国 😀👍🏽", "\u2028"])
def test_bytes_are_read_as_the_text_that_they_are(text):
    pieces = [bytes([each]) for each in text.encode()]
    assert spell(pieces, PLAIN, [False] * len(pieces)).whole == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\t", "\\n\\t"),
        (" a", " a"),
        ("\u202eabc", "\\u202eabc"),
        ("\u200d", "\\u200d"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("\ufe0f", "\\ufe0f"),
    ],
)
def test_what_nobody_would_see_is_written_out(text, expected):
    assert visible(text) == expected


@pytest.mark.parametrize("pair", ["a ", " a", "我爱", "a我", "a.", "。我", "😀😀"])
def test_a_word_ends_here(pair):
    assert boundary(*pair)


@pytest.mark.parametrize("pair", ["ab", "a1", "a\u0301", "👩\u200d", "\u200d👧", "हि"])
def test_a_word_goes_on_here(pair):
    assert not boundary(*pair)
