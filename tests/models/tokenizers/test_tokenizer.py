import copy

import pytest
import torch

from models.tokenizers.corpora import LINES, trained
from regard.errors import FileError, InputError, UnknownNameError
from regard.models.tokenizers import Tokenizer, TokenizerPair

TEXTS = ["I love you.", "我爱你。", "The quick brown fox"]


def tokenizer() -> Tokenizer:
    return trained("word", punctuation=True, chinese="character")


def fresh() -> Tokenizer:
    return Tokenizer(tokenizer().backend_tokenizer, tokenizer().special_tokens)


def test_encode_gives_a_list_or_a_tensor_of_one_row():
    ids = tokenizer().encode("I love you.")
    assert isinstance(ids, list)
    assert tokenizer().encode("I love you.", return_tensors="pt").tolist() == [ids]


def test_a_batch_is_a_mapping_and_has_attributes():
    batch = tokenizer()(TEXTS, return_tensors="pt", padding=True)
    assert {**batch}.keys() == {"input_ids", "attention_mask"}
    assert batch.input_ids is batch["input_ids"]
    assert batch.input_ids.shape == (3, 5)
    with pytest.raises(AttributeError, match="this batch has input_ids, attention_mask"):
        batch.labels  # noqa: B018


def test_padding_is_masked_on_the_chosen_side():
    chosen = fresh()
    chosen.padding_side = "left"
    batch = chosen(["I love you.", "I"], return_tensors="pt", padding=True)
    assert batch.attention_mask.tolist() == [[1, 1, 1, 1, 1], [0, 0, 0, 1, 1]]
    assert (batch.input_ids[1, :3] == chosen.pad_token_id).all()


def test_padding_may_go_to_a_length_or_a_multiple():
    assert tokenizer()(TEXTS, padding="max_length", max_length=11, return_tensors="np")[
        "input_ids"
    ].shape == (3, 11)
    wide = tokenizer()(TEXTS, padding=True, pad_to_multiple_of=7, return_tensors="pt")
    assert wide.input_ids.shape == (3, 7)


def test_a_long_text_is_cut_and_keeps_its_end():
    ids = tokenizer().encode("The quick brown fox", truncation=True, max_length=3)
    assert tokenizer().convert_ids_to_tokens(ids) == ["▁The", "▁quick", "</s>"]


@pytest.mark.parametrize(
    ("way", "kept"), [("only_first", (1, 3)), ("only_second", (3, 1)), (True, (2, 2))]
)
def test_a_pair_is_cut_where_asked(way, kept):
    batch = tokenizer()("I love you", "You love me", truncation=way, max_length=6)
    sides = batch.sequence_ids()
    assert (sides.count(0), sides.count(1)) == kept
    assert len(batch.input_ids) == 6


def test_offsets_words_and_special_tokens_are_given_when_asked():
    batch = tokenizer()("我爱 you", return_offsets_mapping=True, return_special_tokens_mask=True)
    assert batch.tokens() == ["我", "爱", "▁you", "</s>"]
    assert batch.offset_mapping == [(0, 1), (1, 2), (2, 6), (0, 0)]
    assert batch.special_tokens_mask == [0, 0, 0, 1]
    assert batch.word_ids() == [0, 1, 2, None]


def test_a_pair_has_types():
    batch = tokenizer()(["I love"], ["you"], return_tensors="pt")
    assert batch.token_type_ids.shape == batch.input_ids.shape
    assert batch.sequence_ids() == [0, 0, None, 1, None]
    with pytest.raises(InputError, match="a pair for each text, got 2 and 1"):
        tokenizer()(["a", "b"], ["c"])


def test_words_may_be_given_apart():
    batch = tokenizer()(["I", "love", "you"], is_split_into_words=True)
    assert batch.word_ids() == [0, 1, 2, None]
    assert batch.input_ids == tokenizer().encode("I love you")


def test_to_moves_the_tensors():
    batch = tokenizer()(TEXTS, return_tensors="pt", padding=True).to("meta")
    assert batch.input_ids.device.type == "meta"
    assert len(batch.encodings) == 3


def test_decoding_takes_ids_in_any_form():
    ids = tokenizer().encode("I love you.")
    for form in (ids, torch.tensor(ids), tuple(ids)):
        assert tokenizer().decode(form, skip_special_tokens=True) == "I love you."
    assert tokenizer().decode(ids).endswith("</s>")
    assert tokenizer().decode(ids[0]) == "I"
    assert tokenizer().batch_decode([ids, ids[:2]], True) == ["I love you.", "I love"]
    with pytest.raises(InputError, match="use batch_decode"):
        tokenizer().decode(torch.tensor([ids, ids]))


def test_tokens_and_ids_are_each_others_inverse():
    tokens = ["▁I", "▁love", "</s>"]
    ids = tokenizer().convert_tokens_to_ids(tokens)
    assert tokenizer().convert_ids_to_tokens(ids) == tokens
    assert tokenizer().convert_ids_to_tokens(ids, skip_special_tokens=True) == tokens[:2]
    assert tokenizer().convert_ids_to_tokens(ids[1]) == "▁love"
    assert tokenizer().convert_tokens_to_ids("zebra") == tokenizer().unk_token_id
    assert tokenizer().get_vocab()["▁love"] == ids[1]
    with pytest.raises(InputError, match="no token has id 9999"):
        tokenizer().convert_ids_to_tokens(9999)


def test_special_tokens_have_ids():
    ids = [getattr(tokenizer(), f"{role}_token_id") for role in ("pad", "unk", "bos", "eos")]
    assert ids == [0, 1, 2, 3]
    assert sorted(tokenizer().all_special_ids) == ids
    assert tokenizer().cls_token_id is None
    assert tokenizer().is_fast
    assert len(tokenizer()) == tokenizer().vocab_size
    with pytest.raises(AttributeError, match="no 'colour'"):
        tokenizer().colour  # noqa: B018


def test_a_frame_puts_other_tokens_around_a_text():
    with_template = tokenizer().with_template("<s> $A")
    assert with_template("I love").tokens() == ["<s>", "▁I", "▁love"]
    assert tokenizer()("I love").tokens() == ["▁I", "▁love", "</s>"]
    with pytest.raises(InputError, match=r"a template holds \$A"):
        tokenizer().with_template("[CLS] $A")


def test_a_tokenizer_without_padding_says_how_to_get_it():
    bare = fresh()
    bare.pad_token = None
    with pytest.raises(InputError, match=r"tokenizer.pad_token = tokenizer.eos_token"):
        bare(TEXTS, padding=True)
    bare.pad_token = bare.eos_token
    assert bare(TEXTS, padding=True)["input_ids"][0][-1] == bare.eos_token_id


def test_texts_of_unequal_length_are_no_tensor():
    with pytest.raises(InputError, match="have 2 to 5 tokens; one tensor needs padding=True"):
        tokenizer()(["I love you.", "I"], return_tensors="pt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paddding": True}, "did you mean 'padding'"),
        ({"return_tensors": "tf"}, "return_tensors should be one of"),
        ({"truncation": True}, "needs max_length"),
        ({"truncation": "only_second", "max_length": 2}, "cannot be cut to max_length"),
        ({"padding": "max_length"}, "needs max_length"),
    ],
)
def test_an_option_that_cannot_be_is_refused(unchecked, options, message):
    with pytest.raises((InputError, UnknownNameError), match=message):
        tokenizer()("I love you.", **options)


@pytest.mark.parametrize("text", [7, ["a", None], "\ud800"], ids=["int", "None", "surrogate"])
def test_what_is_no_text_is_refused(unchecked, text):
    with pytest.raises((InputError, TypeError), match=r"takes texts|not iterable"):
        tokenizer()(text)
    with pytest.raises(InputError, match=r"encode expected one text|takes texts"):
        tokenizer().encode(text)
    with pytest.raises(InputError, match="got neither"):
        tokenizer()()


def pair() -> TokenizerPair:
    english = Tokenizer.train(LINES[:4], "word", punctuation=True)
    return TokenizerPair(english, Tokenizer.train(LINES[4:8], "character"))


def test_a_pair_reads_the_source_and_writes_the_target():
    both = pair()
    assert both("I love you.").tokens() == ["▁I", "▁love", "▁you", ".", "</s>"]
    batch = both("I love you.", text_target="我爱")
    assert both.decode(batch["labels"], skip_special_tokens=True) == "我爱"
    assert both(text_target="我爱").input_ids == batch["labels"]
    assert both.convert_ids_to_tokens(batch["labels"]) == ["我", "爱", "</s>"]
    assert len(both) == len(both.target) != len(both.source)


def test_a_pair_pads_both_sides_as_told():
    both = pair()
    both.padding_side = "left"
    batch = both(["I love you.", "I"], text_target=["我", "我爱"], padding=True)
    assert batch.attention_mask[1] == [0, 0, 0, 1, 1]
    assert batch["labels"][0][0] == both.pad_token_id
    assert both.model_max_length is None


def test_a_copy_is_the_same_and_of_its_own():
    for each in (fresh(), pair()):
        other = copy.deepcopy(each)
        other.padding_side = "left"
        assert other.encode("I love you.") == each.encode("I love you.")
        assert each.padding_side == "right"


def test_one_tokenizer_is_its_own_source_and_target():
    assert tokenizer().source is tokenizer().target is tokenizer()
    assert "WordLevel" in repr(tokenizer())


def test_a_maximum_that_is_longer_than_any_text_cuts_nothing():
    whole = tokenizer().encode("The quick brown fox")
    cut = tokenizer().encode("The quick brown fox", truncation=True, max_length=10**30)
    assert cut == whole


def test_a_saved_tokenizer_replaces_a_pair_and_keeps_other_files(tmp_path):
    TokenizerPair(tokenizer(), tokenizer()).save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    tokenizer().save(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"tokenizer.json", "tokenizer_config.json", "notes.txt"}


def test_a_full_disk_leaves_the_vocabulary_that_was_there(tmp_path, monkeypatch):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    fresh().save(tmp_path / "vocabulary")
    before = {path.name: path.read_bytes() for path in (tmp_path / "vocabulary").iterdir()}
    monkeypatch.setattr("regard.models.tokenizers.tokenizer._write_json", full_disk)
    for name in ("vocabulary", "other"):
        with pytest.raises(
            FileError, match=rf"the tokenizer to .*{name}: No space left on device;"
        ):
            tokenizer().save(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary"]
    after = {path.name: path.read_bytes() for path in (tmp_path / "vocabulary").iterdir()}
    assert after == before


def test_a_tokenizer_is_not_saved_to_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="file is a file; expected a folder to write the tokenizer"):
        tokenizer().save(tmp_path / "file")
