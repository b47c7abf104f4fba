import json

import pytest
from tokenizers import Tokenizer as Backend

from models.tokenizers.corpora import EXACT, trained
from models.tokenizers.test_tokenizer import pair, tokenizer
from regard.errors import FileError, RegardError
from regard.models.tokenizers import Tokenizer, TokenizerPair

TEXT = "我爱you, 😀 don't (yes)."


@pytest.mark.parametrize("kind", [*EXACT, "word"])
def test_a_saved_tokenizer_comes_back(kind, tmp_path):
    saved = trained(kind, punctuation=True)
    saved.save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert loaded.encode(TEXT) == saved.encode(TEXT)
    assert loaded.special_tokens_map == saved.special_tokens_map
    assert loaded.get_vocab() == saved.get_vocab()


def test_a_saved_pair_comes_back_with_both_sides(tmp_path):
    both = pair()
    both.source.padding_side, both.target.model_max_length = "left", 13
    both.save(tmp_path)
    names = {"tokenizer.json", "target_tokenizer.json", "tokenizer_config.json"}
    assert {file.name for file in tmp_path.iterdir()} == names
    loaded = Tokenizer.load(tmp_path)
    assert isinstance(loaded, TokenizerPair)
    assert loaded("I love you.").tokens() == both("I love you.").tokens()
    assert loaded.decode(both(text_target="我爱").input_ids) == "我爱</s>"
    assert (loaded.source.padding_side, loaded.target.model_max_length) == ("left", 13)


def test_transformers_reads_what_is_saved(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer().save(tmp_path)
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    assert theirs("I love you.").input_ids == tokenizer()("I love you.").input_ids
    assert theirs.pad_token_id == tokenizer().pad_token_id


def test_special_tokens_come_from_a_hugging_face_config(tmp_path):
    backend = Backend.from_str(tokenizer().backend_tokenizer.to_str())
    backend.add_special_tokens(["[START]", "[STOP]"])
    backend.enable_padding(length=17)
    backend.enable_truncation(2)
    backend.save(str(tmp_path / "tokenizer.json"))
    config = {"bos_token": {"content": "[START]"}, "model_max_length": 10**30}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "[STOP]", "x_token": null}')
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.bos_token, loaded.eos_token, loaded.pad_token) == ("[START]", "[STOP]", None)
    assert loaded.model_max_length is None
    assert len(loaded.encode("I love you.")) == 5


def test_without_a_config_special_tokens_are_known_by_their_names(tmp_path):
    tokenizer().backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.load(tmp_path).special_tokens_map.get("eos_token") == "</s>"


def test_the_two_files_of_gpt2_are_read(tmp_path):
    trained("byte-bpe").backend_tokenizer.model.save(str(tmp_path))
    loaded = Tokenizer.load(tmp_path)
    assert loaded.decode(loaded.encode(TEXT)) == TEXT
    assert loaded.special_tokens_map.get("eos_token") == "<|endoftext|>"


def test_the_vocabulary_of_bert_is_read(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "lov", "##e", "爱"]
    (tmp_path / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    loaded = Tokenizer.load(tmp_path)
    assert loaded("I love 爱").tokens() == ["[CLS]", "i", "lov", "##e", "爱", "[SEP]"]
    assert loaded.cls_token_id == 2


def test_a_missing_or_broken_file_says_so(tmp_path):
    with pytest.raises(FileError, match="no folder"):
        Tokenizer.load(tmp_path / "nowhere")
    with pytest.raises(FileError, match=r"holds no tokenizer; expected tokenizer.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "mod')
    with pytest.raises(FileError, match="no whole tokenizer file"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(FileError, match="no whole JSON file"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('{"model_max_length": "x"}', "model_max_length to be a whole number above 0, got 'x'"),
        ('{"model_max_length": [1]}', r"model_max_length to be a whole number above 0, got \[1\]"),
        ('{"model_max_length": -5}', "model_max_length to be a whole number above 0, got -5"),
        ('{"padding_side": 3}', "expected padding_side to be one of 'left', 'right', got 3"),
        ("[" * 9999, "is nested too deeply"),
        ("[]", "should hold a JSON object, got list"),
    ],
)
def test_wrong_settings_of_a_tokenizer_are_named(tmp_path, settings, message):
    Tokenizer.train(["I love you."] * 9, "character").save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(settings)
    with pytest.raises(RegardError, match=message):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("limit", ["1000000000000000019884624838656", "1e30", "null"])
def test_a_huge_maximum_length_means_no_limit(tmp_path, limit):
    Tokenizer.train(["I love you."] * 9, "character").save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(f'{{"model_max_length": {limit}}}')
    assert Tokenizer.load(tmp_path) is not None


@pytest.mark.parametrize("content", ["{}", '{"a": "x"}', "[" * 9999, '{"a": 5}'])
def test_a_damaged_vocabulary_of_an_older_layout_is_refused(tmp_path, content):
    (tmp_path / "vocab.json").write_text(content)
    (tmp_path / "merges.txt").write_text("#version: 0.2\nx y z\nq")
    with pytest.raises(FileError):
        Tokenizer.load(tmp_path)


def test_a_template_with_a_token_that_is_not_defined_is_refused(tmp_path):
    Tokenizer.train(["I love you."] * 9, "character").save(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["post_processor"]["special_tokens"] = {}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(FileError, match="special token '</s>' around a text without saying what"):
        Tokenizer.load(tmp_path)
