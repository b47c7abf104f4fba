import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.tokenizers.corpora import EXACT, LINES, back, trained
from regard.errors import InputError, UnknownNameError
from regard.models.tokenizers import Tokenizer
from regard.models.tokenizers.training import _cut_long_words

SPECIAL = {"<pad>", "<unk>", "<s>", "</s>"}
MIXED = st.text(
    st.one_of(
        st.sampled_from("  abcdeloveyou.,!?'\"()<>0x41\n\t"),
        st.sampled_from("我爱你中国。？“”，，　"),
        st.sampled_from("😀👨‍👩‍👧♥é\u0301ßΣ𝄞"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=31,
).filter(lambda text: not any(name in text for name in SPECIAL))


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("options", [{}, {"punctuation": True, "chinese": "character"}], ids=str)
@given(text=MIXED)
@settings(max_examples=150, deadline=None)
def test_a_text_comes_back_exactly(kind, options, text):
    written = text.replace("▁", " ") if kind in ("bpe", "unigram") else text
    assert back(trained(kind, **options), text) == written


@given(text=st.lists(st.sampled_from(["I love", " you", ".", "我爱", " 中国"])).map("".join))
def test_words_come_back_exactly_where_all_are_known(text):
    tokenizer = trained("word", punctuation=True, chinese="character")
    if tokenizer.unk_token_id not in tokenizer.encode(text):
        assert back(tokenizer, text) == text


def test_known_words_are_not_unknown():
    tokenizer = trained("word", punctuation=True, chinese="character")
    assert tokenizer.tokenize("I love you.") == ["▁I", "▁love", "▁you", "."]
    assert tokenizer.tokenize("I love zebras") == ["▁I", "▁love", "<unk>"]


def test_the_space_sign_in_a_text_comes_back_as_a_space():
    assert back(trained("bpe"), "a▁b") == "a b"


@pytest.mark.parametrize("kind", [*EXACT, "word"])
def test_case_is_kept_unless_told_otherwise(kind):
    assert "I love you." in back(trained(kind), "I love you.")
    assert back(trained(kind, lower=True), "I love you.") == "i love you."


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word"])
def test_a_mark_is_a_token_of_its_own_if_asked(kind):
    tokens = trained(kind, punctuation=True).tokenize("I love you.")
    assert tokens[-1] == "."
    assert trained("word").tokenize("I love you.")[-1] == "▁you."


def test_an_apostrophe_inside_a_word_is_no_mark():
    tokens = trained("word", punctuation=True).tokenize("You don't love me, do you?")
    assert tokens == ["▁You", "▁don't", "▁love", "▁me", ",", "▁do", "▁you", "?"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "word", "character"])
def test_a_chinese_character_is_a_token_of_its_own_if_asked(kind):
    tokenizer = trained(kind, punctuation=True, chinese="character")
    assert tokenizer.tokenize("我爱你。") == ["我", "爱", "你", "。"]


def test_chinese_by_subword_joins_characters():
    assert "我爱" in "".join(trained("word").tokenize("我爱你。"))
    assert trained("word").tokenize("我爱你。") == ["我爱你。"]


def test_a_byte_tokenizer_keeps_marks_and_characters_apart_too():
    tokenizer = trained("byte-bpe", punctuation=True, chinese="character")
    batch = tokenizer("我爱you.")
    assert len(set(batch.word_ids()) - {None}) == 4


def test_a_text_that_spells_a_byte_is_not_taken_for_it():
    assert back(trained("unigram"), "<0x41>") == "<0x41>"
    assert back(trained("bpe"), "<0x41>") == "<0x41>"


def test_a_smaller_alphabet_spells_rare_characters_in_bytes():
    tokenizer = Tokenizer.train(LINES, "bpe", 280, alphabet=17)
    assert len(tokenizer) <= 280
    assert back(tokenizer, "中国 fox") == "中国 fox"


@pytest.mark.parametrize("kind", ["bpe", "byte-bpe", "word"])
def test_the_vocabulary_is_as_large_as_asked_at_most(kind):
    assert len(Tokenizer.train(LINES, kind, 353)) <= 353


@pytest.mark.parametrize("kind", [*EXACT, "word"])
@pytest.mark.parametrize("lines", [[], ["", ""]], ids=["no lines", "empty lines"])
def test_an_empty_corpus_is_refused(kind, lines):
    with pytest.raises(InputError, match="the corpus is empty"):
        Tokenizer.train(lines, kind)


@pytest.mark.parametrize("kind", EXACT)
def test_a_vocabulary_smaller_than_the_alphabet_is_refused(kind):
    with pytest.raises(InputError, match=r"raise vocab_size"):
        Tokenizer.train(LINES, kind, 101)


def test_what_is_no_line_is_refused(unchecked):
    with pytest.raises(InputError, match="line 1 of the corpus is int, expected str"):
        Tokenizer.train(["a", 7], "bpe")
    with pytest.raises(InputError, match="got one str"):
        Tokenizer.train("a b c", "bpe")


def test_an_unknown_kind_names_the_nearest(unchecked):
    with pytest.raises(UnknownNameError, match="did you mean 'unigram'"):
        Tokenizer.train(LINES, "unigrm")
    with pytest.raises(InputError, match="alphabet limits"):
        Tokenizer.train(LINES, "word", alphabet=7)


@pytest.mark.parametrize("line", ["", "I love you", "a" * 256, "a" * 1000, "我" * 9999])
def test_a_very_long_word_is_cut_before_it_is_learnt_from(line):
    # learning BPE takes time that grows with the square of the longest word
    parts = list(_cut_long_words(line))
    assert "".join(parts) == line
    assert max((len(word) for part in parts for word in part.split()), default=0) <= 256


def test_a_line_of_one_endless_word_is_learnt_from():
    tokenizer = Tokenizer.train(["ab" * 50_000, "I love you."], "bpe", 300)
    assert tokenizer.decode(tokenizer.encode("ab" * 500, add_special_tokens=False)) == "ab" * 500
