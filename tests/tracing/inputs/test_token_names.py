import re

import pytest
import torch

from regard.tracing.inputs.token_names import TokenNamer
from regard.types import Tokens
from tracing import readers

TEXTS = ["I love 我 and 中国 😀!", "I love naïve players, 👍🏽", "我 爱 你"]
SPREAD = re.compile(r"(.)\[(\d)/\d\]")


def encoded(tokenizer, *columns):
    asked = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    encoding = tokenizer(*columns, padding=True, return_tensors="pt", **asked)
    texts = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    return TokenNamer(tokenizer).name_texts(encoding, texts)


def joined(tokens):
    """The texts in a row, each spread character once."""
    return SPREAD.sub(lambda found: found[1] * (found[2] == "1"), "".join(tokens.texts))


def test_joined_texts_of_a_byte_level_tokenizer_are_the_text():
    for text, tokens in zip(TEXTS, encoded(readers.padded_byte_level(), TEXTS), strict=True):
        assert joined(tokens) == text
        assert "Ġ" not in "".join(tokens)


def test_a_split_character_is_numbered():
    (tokens,) = encoded(readers.padded_byte_level(), ["龙"])
    assert tokens.texts == ("龙[1/3]", "龙[2/3]", "龙[3/3]")
    assert tokens.offsets == ((0, 1),) * 3
    assert tokens.words == (0, 0, 0)


def test_bytes_that_a_tokenizer_falls_back_on_are_characters_too():
    (tokens,) = encoded(readers.byte_fallback(), ["I love 我"])
    assert tokens.texts == ("▁I", "▁love", "▁", "我[1/3]", "我[2/3]", "我[3/3]", "</s>")
    assert tokens.words == (0, 1, 2, 2, 2, 2, None)


def test_marks_stay_as_the_tokenizer_has_them():
    (tokens,) = encoded(readers.word_piece(), ["I love playings"])
    assert tokens.texts[:4] == ("[CLS]", "i", "love", "playing")
    assert tokens.texts[4:] == ("##s", "[SEP]")
    assert encoded(readers.unigram(), ["love"])[0].texts[0].startswith("▁")


def test_offsets_and_words_are_those_of_the_encoding():
    (tokens,) = encoded(readers.word_piece(), ["I love playings"])
    assert tokens.offsets == ((0, 0), (0, 1), (2, 6), (7, 14), (14, 15), (0, 0))
    assert tokens.words == (None, 0, 1, 2, 2, None)
    assert tokens.special == (True, False, False, False, False, True)


def test_padding_is_left_out():
    short, long = encoded(readers.word_piece(), ["I", "I love playing football"])
    assert short.texts == ("[CLS]", "i", "[SEP]")
    assert len(long) > 5


def test_an_unknown_token_is_not_special():
    (tokens,) = encoded(readers.word_piece(), ["I love Ω"])
    assert tokens.texts[3] == "[UNK]"
    assert tokens.offsets[3] == (7, 8)
    assert tokens.special == (True, False, False, False, True)


def test_a_special_token_within_a_text_is_special():
    (tokens,) = encoded(readers.word_piece(), ["I [MASK] you"])
    assert tokens.special == (True, False, True, False, True)


def test_an_added_token_is_no_bytes():
    (tokens,) = encoded(readers.padded_byte_level(), ["I<é 1>"])
    assert tokens.texts == ("I", "<é 1>")


def test_the_second_of_a_pair_counts_on_from_the_first():
    (tokens,) = encoded(readers.word_piece(), ["I love"], ["you 我"])
    assert tokens.texts == ("[CLS]", "i", "love", "[SEP]", "you", "我", "[SEP]")
    assert tokens.words == (None, 0, 1, None, 2, 3, None)
    assert tokens.offsets == ((0, 0), (0, 1), (2, 6), (0, 0), (6, 9), (10, 11), (0, 0))


def test_a_tokenizer_that_does_not_cut_into_words_is_cut_by_marks():
    (tokens,) = encoded(readers.byte_fallback(split=False), ["I love 我 too"])
    words = dict(zip(tokens.texts, tokens.words, strict=True))
    assert words["我[1/3]"] == words["我[3/3]"] != words["▁love"]


@pytest.mark.parametrize(
    "tokenizer", [readers.padded_byte_level, readers.unigram, readers.byte_fallback]
)
def test_ids_alone_know_their_offsets_and_special_tokens(tokenizer):
    text = "I love playing 我"
    (known,) = encoded(tokenizer(), [text])
    found = TokenNamer(tokenizer()).name_ids(known.ids)
    assert (found.texts, found.special) == (known.texts, known.special)
    decoded = tokenizer().decode(known.ids, skip_special_tokens=True)
    for start, stop, piece in zip(*zip(*found.offsets, strict=True), found.texts, strict=True):
        assert decoded[start:stop].strip() in piece.replace("▁", " ")
    assert {place for span in found.offsets for place in range(*span)} == {*range(len(decoded))}


def test_words_of_ids_alone_are_cut_at_spaces_and_each_han_character():
    text = "I love 龙我, you!"
    (known,) = encoded(readers.padded_byte_level(), [text])
    tokens = TokenNamer(readers.padded_byte_level()).name_ids(known.ids)
    pairs = zip(tokens.words, tokens.words[1:], tokens.offsets[1:], strict=False)
    starts = [0, *(start for one, other, (start, _) in pairs if one != other)]
    cut = [text[start:stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    assert cut == ["I", " love", " 龙", "我", ",", " you", "!"]


def test_words_of_word_pieces_alone_go_on_after_marks():
    (known,) = encoded(readers.word_piece(), ["I love playings"])
    assert TokenNamer(readers.word_piece()).name_ids(known.ids).words == known.words


def test_offsets_are_not_there_where_the_text_cannot_be_told():
    assert TokenNamer(readers.word_piece()).name_ids([2, 1, 3]).offsets is None
    assert TokenNamer(readers.Slow()).name_ids([5, 7]).offsets is None


def test_an_id_beyond_the_vocabulary_is_shown_as_a_number():
    tokens = TokenNamer(readers.word_piece()).name_ids([2, 4999, 3])
    assert tokens.texts == ("[CLS]", "4999", "[SEP]")


def test_a_tokenizer_that_refuses_an_id_has_a_number_for_it_too():
    class Strict(readers.Slow):
        def convert_ids_to_tokens(self, ids):
            if max(ids) > 99:
                raise IndexError(max(ids))
            return super().convert_ids_to_tokens(ids)

    assert TokenNamer(Strict()).name_ids([5, 4999]).texts == ("c5", "4999")


def test_an_unknown_token_that_ends_texts_too_is_special():
    class Old(readers.Slow):
        unk_token_id = 2

    assert TokenNamer(Old()).name_ids([5, 2]).special == (False, True)


def test_ids_without_a_tokenizer_are_their_own_texts():
    assert TokenNamer(None).name_ids([5, 7]) == Tokens(("5", "7"), (5, 7))


def test_what_a_model_went_on_with_goes_on_in_the_text():
    tokenizer = readers.padded_byte_level()
    (prompt,) = encoded(tokenizer, ["I love 我"])
    more = [*tokenizer("国 you")["input_ids"], tokenizer.eos_token_id]
    tokens = TokenNamer(tokenizer).append_ids(prompt, more)
    assert joined(tokens) == "I love 我国 you<|end|>"
    assert (tokens.offsets[len(prompt)], tokens.offsets[-2:]) == ((8, 9), ((12, 13), (0, 0)))
    assert tokens.words[len(prompt)] == prompt.words[-1] + 1
    assert (tokens.words[-1], tokens.special[-1]) == (None, True)


def test_a_character_may_be_begun_by_a_prompt_and_ended_by_the_model():
    tokenizer = readers.padded_byte_level()
    first, *rest = tokenizer("龙")["input_ids"]
    labels = TokenNamer(tokenizer)
    tokens = labels.append_ids(labels.name_ids([first]), rest)
    assert tokens.texts == ("龙[1/3]", "龙[2/3]", "龙[3/3]")
    assert tokens.words == (0, 0, 0)


def test_what_a_decoder_starts_with_is_special():
    labels = TokenNamer(readers.unigram())
    tokens = labels.prepend_start(1, labels.name_ids([5, 2]))
    assert (tokens.texts[0], tokens.ids) == ("<s>", (1, 5, 2))
    assert tokens.special == (True, False, True)


def test_tokenizers_without_offsets_leave_them_out():
    tokenizer = readers.Slow()
    encoding = tokenizer(["ab", "abc"], True, "pt", False)
    short, long = TokenNamer(tokenizer).name_texts(encoding, ["ab", "abc"])
    assert (len(short), len(long)) == (3, 4)
    assert short.offsets is None
    assert short.special == (False, False, True)
    assert isinstance(short.ids[0], int)
    assert torch.equal(encoding["input_ids"][1], torch.tensor(long.ids))


def test_a_prompt_of_special_tokens_alone_is_gone_on_from():
    labels = TokenNamer(readers.unigram())
    tokens = labels.append_ids(labels.name_ids([1]), [5, 2])
    assert tokens.ids == (1, 5, 2)
    assert tokens.words == (None, 0, None)
