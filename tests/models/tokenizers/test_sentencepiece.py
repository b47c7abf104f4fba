"""SentencePiece models written here byte by byte, as the protobuf has it."""

import json
import struct

import pytest

from regard.errors import FileError
from regard.models.tokenizers import Tokenizer

NORMAL, UNKNOWN, CONTROL, BYTE, UNIGRAM, BPE = 1, 2, 3, 6, 1, 2
CONTROLS = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def piece(text, score, kind):
    score = varint(2 << 3 | 5) + struct.pack("<f", score)
    return field(1, field(1, text.encode()) + score + varint(3 << 3) + varint(kind))


def model(pieces, model_type=UNIGRAM, normalizer=b""):
    trainer = field(2, varint(3 << 3) + varint(model_type))
    return b"".join(piece(*each) for each in pieces) + trainer + field(3, normalizer)


SOURCE = [*CONTROLS, ("▁", -3.0, 1), ("▁我", -2.0, 1), ("我", -4.0, 1), ("爱", -4.5, 1)]
SOURCE += [("▁我爱", -5.0, 1), ("a", -9.0, 1)]
TARGET = [*CONTROLS, ("▁I", -2.0, 1), ("▁love", -2.5, 1), ("é", -7.0, 1), ("▁", -3.0, 1)]
TARGET += [("爱a", -1.0, 1)]


@pytest.fixture
def marian(tmp_path):
    (tmp_path / "source.spm").write_bytes(model(SOURCE))
    (tmp_path / "target.spm").write_bytes(model(TARGET))
    names = ["</s>", "<unk>", ">>zh<<", "爱a"]
    names += [name for name, _, kind in SOURCE + TARGET if kind == NORMAL]
    names = [*dict.fromkeys(names), "<pad>"]
    vocabulary = {name: number for number, name in enumerate(names)}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    return tmp_path


def test_pieces_are_those_of_the_best_path(marian):
    assert Tokenizer.load(marian)("我爱 我").tokens() == ["▁我爱", "▁我", "</s>"]


def test_both_sides_have_the_ids_of_the_shared_vocabulary(marian):
    vocabulary = json.loads((marian / "vocab.json").read_text())
    loaded = Tokenizer.load(marian)
    assert loaded.encode("我爱")[0] == vocabulary["▁我爱"]
    assert loaded(text_target="I love").input_ids == [
        vocabulary[name] for name in ("▁I", "▁love", "</s>")
    ]
    assert (loaded.eos_token_id, loaded.pad_token_id) == (0, vocabulary["<pad>"])


def test_a_piece_of_the_other_side_is_never_found_but_can_be_read(marian):
    loaded = Tokenizer.load(marian)
    assert loaded("爱a").tokens() == ["▁", "爱", "a", "</s>"]
    number = loaded.source.convert_tokens_to_ids("爱a")
    assert loaded.source.convert_ids_to_tokens(number) == "爱a"
    assert loaded.source.decode([number]) == "爱a"
    assert loaded.decode(loaded.encode("我爱"), skip_special_tokens=True) == "我爱"


def test_a_single_character_of_the_other_side_is_looked_up(marian):
    loaded = Tokenizer.load(marian)
    assert loaded("é").tokens() == ["▁", "é", "</s>"]
    assert loaded.encode("ø")[1] == loaded.unk_token_id


def test_spaces_are_trimmed_and_a_language_code_is_one_token(marian):
    loaded = Tokenizer.load(marian)
    assert loaded("  我爱   我 ").tokens() == ["▁我爱", "▁我", "</s>"]
    assert loaded(">>zh<< 我").tokens() == [">>zh<<", "▁我", "</s>"]


def test_a_marian_folder_is_saved_as_ours(marian, tmp_path):
    Tokenizer.load(marian).save(tmp_path / "ours")
    again = Tokenizer.load(tmp_path / "ours")
    assert again("爱a é").input_ids == Tokenizer.load(marian)("爱a é").input_ids


def test_a_single_model_keeps_its_own_ids(tmp_path):
    (tmp_path / "spiece.model").write_bytes(model(SOURCE))
    loaded = Tokenizer.load(tmp_path)
    assert loaded.encode("我爱 我") == [7, 4]
    assert loaded.bos_token_id == 1


def test_a_bpe_model_joins_by_rank_and_falls_back_to_bytes(tmp_path):
    letters = [("▁", -5.0, 1), ("a", -6.0, 1), ("b", -7.0, 1)]
    joined = [("ab", -1.0, 1), ("▁a", -2.0, 1), ("▁ab", -3.0, 1)]
    spelled = [(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    (tmp_path / "tokenizer.model").write_bytes(model([*CONTROLS, *spelled, *joined, *letters], BPE))
    loaded = Tokenizer.load(tmp_path)
    assert loaded("ab ba").tokens() == ["▁ab", "▁", "b", "a"]
    assert loaded.decode(loaded.encode("ab 爱")) == "ab 爱"


def test_a_broken_model_says_so(marian):
    whole = (marian / "source.spm").read_bytes()
    for broken in (b"", whole[:-7], b"\xff" * 31, b"hello"):
        (marian / "source.spm").write_bytes(broken)
        with pytest.raises(FileError, match="no whole SentencePiece model"):
            Tokenizer.load(marian)
    (marian / "vocab.json").unlink()
    with pytest.raises(FileError, match=r"no vocab.json beside"):
        Tokenizer.load(marian)


def test_a_vocabulary_with_gaps_and_a_model_of_words_are_refused(marian, tmp_path):
    (marian / "vocab.json").write_text('{"<unk>": 0, "</s>": 5}')
    with pytest.raises(FileError, match="have gaps"):
        Tokenizer.load(marian)
    folder = tmp_path / "words"
    folder.mkdir()
    (folder / "spiece.model").write_bytes(model(SOURCE, 3))
    with pytest.raises(FileError, match="expected unigram or BPE"):
        Tokenizer.load(folder)
