import pytest

from regard.types import Tokens
from regard.views.scene import TokenStream
from regard.views.scene.streams import LONGEST_TOKEN


def stream_of(*texts, words):
    return TokenStream.of(
        Tokens(texts, words=words, special=tuple(text[0] == "[" for text in texts))
    )


def words_of(stream, unit="word"):
    starts = stream.starts(unit)
    ends = (*starts[1:], len(stream))
    return [stream.unit_text(unit, *span) for span in zip(starts, ends, strict=True)]


def test_pieces_of_one_word_are_joined_without_their_marks():
    stream = stream_of("[CLS]", "un", "##kind", "word", words=(None, 0, 0, 1))
    assert words_of(stream) == ["[CLS]", "unkind", "word"]
    assert stream.texts[2] == "##kind"


def test_words_that_begin_again_in_a_second_text_stay_apart():
    stream = stream_of("a", "b", "[SEP]", "c", words=(0, 1, None, 0))
    assert stream.words == (0, 1, 2, 3)


def test_a_word_with_the_number_of_the_word_before_a_special_token_is_another():
    stream = stream_of("a", "[SEP]", "b", words=(0, None, 0))
    assert stream.words == (0, 1, 2)


def test_sentencepiece_marks_are_spaces():
    stream = TokenStream.of(Tokens(("▁un", "freund", "▁Wort"), words=(0, 0, 1)))
    assert stream.text(0, 3) == "unfreund Wort"
    assert stream.plain == ("un", "freund", "Wort")


def test_offsets_say_where_white_space_is():
    stream = TokenStream.of(
        Tokens(("我", "爱", "NLP", "!"), offsets=((0, 1), (1, 2), (3, 6), (6, 7)))
    )
    assert stream.text(0, 4) == "我爱 NLP!"


def test_tokens_of_which_nothing_is_known_are_words_with_spaces_between():
    stream = TokenStream.of(Tokens(("I", "love", "you")))
    assert stream.text(0, 3) == "I love you"
    assert words_of(stream) == ["I", "love", "you"]


def test_a_character_that_is_spread_over_pieces_is_written_once():
    stream = TokenStream.of(Tokens(("我[1/3]", "我[2/3]", "我[3/3]"), words=(0, 0, 0)))
    assert words_of(stream) == ["我"]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (("Go", ".", "Stop", "!"), ["Go .", "Stop !"]),
        (("他", "走", "。", "”", "她", "来"), ["他走。”", "她来"]),
        (("one", "two"), ["one two"]),
        (("Wait", "...", "what", "?", '"', "No"), ["Wait ...", 'what ? "', "No"]),
    ],
)
def test_a_sentence_ends_with_its_mark_and_what_closes_it(texts, found):
    assert words_of(TokenStream.of(Tokens(texts)), "sentence") == found


def test_a_special_token_is_a_sentence_of_its_own():
    stream = TokenStream.of(
        Tokens(("[CLS]", "a", "b", "[SEP]"), special=(True, False, False, True))
    )
    assert stream.sentences == (0, 1, 3)


def test_positions_have_no_words_longer_than_one():
    stream = TokenStream.of(Tokens.positions(5))
    assert stream.words == stream.sentences == (0, 1, 2, 3, 4)
    assert not stream.named


def test_no_spaces_part_chinese_tokens_whose_spacing_nobody_told():
    stream = TokenStream.of(Tokens(("我", "爱", "Python", "，", "真的")))
    assert stream.text(0, 5) == "我爱 Python ，真的"


def test_a_piece_is_called_without_the_mark_of_a_space():
    stream = TokenStream.of(Tokens(("▁un", "freund", "▁"), words=(0, 0, 1)))
    assert stream.texts == ("un", "freund", "▁")


def test_a_token_of_a_megabyte_is_cut_once_for_all_pictures():
    stream = TokenStream.of(Tokens(("x" * 1_000_000, "y.", "z")))
    assert len(stream.texts[0]) == len(stream.plain[0]) == LONGEST_TOKEN
    assert stream.texts[0].endswith("x…")


@pytest.mark.parametrize("end", ["", "\n", "\\n", "。"])
def test_the_ellipsis_of_a_cut_token_ends_no_sentence(end):
    # quadratic matching would take minutes here
    stream = TokenStream.of(Tokens(("." + "x" * 1_000_000 + end, "z")))
    assert stream.sentences == ((0, 1) if end else (0,))
