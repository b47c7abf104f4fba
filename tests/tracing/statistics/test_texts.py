import warnings

import pytest
import torch

from regard.measures.token_kinds import token_kinds
from regard.tracing.statistics.texts import CorpusReader, TokenKinds

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import readers

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

KINDS = TokenKinds(("", "on_special", "on_punctuation"), token_kinds)
TEXTS = ["I love you.", "我爱你，你爱我。", "I love playing chess, and playing football."]
TOKENIZERS = [
    readers.word_piece,
    readers.unigram,
    readers.byte_level,
    readers.padded_byte_level,
    readers.byte_fallback,
]
every_tokenizer = pytest.mark.parametrize("make", TOKENIZERS, ids=lambda make: make.__name__)


def reading(make=readers.word_piece, longest=None, texts=TEXTS, targets=None):
    found = CorpusReader(make(), KINDS, longest)
    found.read(texts, targets)
    return found


@every_tokenizer
def test_kinds_are_those_of_the_tokens_that_a_capture_names(make):
    found = reading(make)
    for text in TEXTS:
        (tokens,) = CorpusReader.__base__(make()).encode("text", [text], "right").tokens
        assert list(found.source(text).kinds) == token_kinds(tokens).tolist()


@every_tokenizer
def test_texts_are_padded_as_the_tokenizer_encodes_them(make):
    encoded = reading(make).encode("text", TEXTS, "right")
    for row, text in enumerate(TEXTS):
        ids, count = make()(text)["input_ids"], encoded.arguments["attention_mask"][row].sum()
        assert encoded.arguments["input_ids"][row, :count].tolist() == ids
    assert encoded.tokens == (None,) * len(TEXTS)


def test_a_text_longer_than_the_longest_is_cut_and_says_so():
    found = reading(longest=7)
    assert [(len(found.source(text)), found.source(text).cut) for text in TEXTS] == [
        (len(readers.word_piece()(TEXTS[0])["input_ids"]), False),
        (7, True),
        (7, True),
    ]
    assert found.source(TEXTS[2]).parts["input_ids"][-1] == readers.word_piece().sep_token_id


def test_a_text_of_just_the_longest_is_whole():
    length = len(readers.word_piece()(TEXTS[0])["input_ids"])
    found = reading(longest=length, texts=TEXTS[:1])
    assert (len(found.source(TEXTS[0])), found.source(TEXTS[0]).cut) == (length, False)


def test_pairs_are_encoded_as_pairs():
    pair = (TEXTS[0], TEXTS[1])
    found = reading(texts=[pair]).source(pair)
    assert found.parts["input_ids"] == readers.word_piece()(*pair)["input_ids"]


def test_targets_are_encoded_and_cut_too():
    found = reading(readers.unigram, 5, TEXTS[:1], TEXTS[2:])
    ids, mask, tokens = found.encode_targets(TEXTS[2:])
    assert (ids.shape, mask.tolist(), len(tokens)) == ((1, 5), [[1] * 5], 1)
    assert found.target(TEXTS[2]).cut


def test_a_start_is_special_whatever_token_it_is():
    finder = reading(readers.unigram).target_kinds
    assert finder.kind_of_start(readers.unigram().pad_token_id) == 1
    assert finder.kind_of_start(7) == 1


def test_a_tokenizer_need_not_tell_what_is_special():
    class Plain:
        pad_token_id, all_special_ids, unk_token_id = 0, (0, 2), None

        def __call__(self, texts, **_):
            ids = [[*(3 + ord(each) % 97 for each in text), 2] for text in texts]
            return {"input_ids": ids, "attention_mask": [[1] * len(row) for row in ids]}

        def convert_ids_to_tokens(self, ids):
            return [{2: "</s>"}.get(each, f"c{each}") for each in ids]

    assert list(reading(Plain, texts=["ab"]).source("ab").kinds) == [0, 0, 1]
    assert torch.equal(
        reading(Plain, texts=["ab"]).encode("text", ["ab"], "right").arguments["attention_mask"],
        torch.ones(1, 3, dtype=torch.long),
    )
