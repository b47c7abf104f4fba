import json

import pytest

from loading import checkpoints
from regard.errors import FileError
from regard.loading import describe_model, find_models

CARD = """# m

## Scores
On held-out texts:

| search | BLEU | note | chrF |
|---|--:|--|--:|
| beam 5 | 32.7 | | 28.0 |
| greedy | 31.3 | | 26.8 |

## Limits
| a | b |
|---|---|
| 1 | 2 |
"""


@pytest.fixture
def folder(tmp_path):
    checkpoints.a_teller(tmp_path / "m")
    return tmp_path / "m"


def rewritten(folder, **changes):
    file = folder / "config.json"
    config = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return describe_model(folder)


def test_the_parameters_are_counted_without_being_read(folder):
    from regard import from_pretrained

    model = from_pretrained(folder)
    assert describe_model(folder).parameters == sum(each.numel() for each in model.parameters())


def test_the_score_is_the_first_row_of_the_card_under_scores(folder):
    (folder / "README.md").write_text(CARD)
    assert describe_model(folder).score == "BLEU 32.7, chrF 28.0 (beam 5)"


@pytest.mark.parametrize("card", ["# m\n", "## Scores\nnone yet\n", "## Scores\n| a |\n"])
def test_a_card_without_scores_tells_none(folder, card):
    (folder / "README.md").write_text(card)
    assert describe_model(folder).score is None


def test_a_card_that_is_no_text_tells_none(folder):
    (folder / "README.md").write_bytes(b"\xff")
    assert describe_model(folder).score is None


def test_a_class_that_we_do_not_have_is_not_ours(folder):
    found = rewritten(folder, **{"class": "Perceptron"})
    assert (found.loads, found.why) == ("transformers", "no class 'Perceptron' here")


@pytest.mark.parametrize(
    ("settings", "task"),
    [
        ({"kind": "encoder-decoder"}, "translates"),
        ({"kind": "encoder", "head": "classes"}, "classifies"),
        ({"kind": "encoder"}, "reads"),
        ({"kind": "vision"}, "sees"),
        ({"class": "Recurrent"}, "translates"),
        ({"class": "Captioner"}, "sees"),
        ({"class": None, "architectures": ["BertForMaskedLM"]}, "fills"),
        ({"class": None, "architectures": ["BertForQuestionAnswering"]}, "answers"),
        ({"class": None, "architectures": ["BertModel"]}, "reads"),
        ({"class": None}, "reads"),
    ],
)
def test_the_task_is_told_by_class_kind_or_architecture(folder, settings, task):
    assert rewritten(folder, **settings).task == task


def test_a_setting_that_our_classes_refuse_is_named(tmp_path):
    place = tmp_path / "m"
    checkpoints.foreign("vit", place)
    assert describe_model(place).loads == "regard"
    found = rewritten(place, qkv_bias=False)
    assert found.loads == "transformers"
    assert "qkv_bias" in found.why


def test_weights_of_another_format_are_not_counted(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    found = rewritten(folder, **{"class": None, "model_type": "llama"})
    assert (found.parameters, found.loads) == (None, "regard")


@pytest.mark.parametrize(
    "contents",
    [
        b"\x05\0\0\0\0\0\0\0{{{{{",
        b"\xff" * 20,
        b"\x10\x27\0\0\0\0\0\0" + b"[" * 10000,
        b"\x03\0\0\0\0\0\0\0[1]",
        b'\x07\0\0\0\0\0\0\0{"a":1}',
        b'\x14\0\0\0\0\0\0\0{"a":{"shape":["x"]}}',
    ],
)
def test_weights_that_are_damaged_are_not_counted(folder, contents):
    (folder / "model.safetensors").write_bytes(contents)
    assert describe_model(folder).parameters is None


def test_weights_behind_a_link_that_leads_nowhere_are_not_counted(folder):
    weights = folder / "model.safetensors"
    weights.unlink()
    weights.symlink_to(folder / "gone.safetensors")
    assert describe_model(folder).parameters is None


def test_a_folder_is_itself_before_what_is_in_it(folder):
    checkpoints.a_teller(folder / "inner")
    assert find_models(folder) == [folder]
    assert find_models(folder.parent) == [folder]


def test_a_config_that_is_broken_is_named(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(FileError, match="is no whole JSON file"):
        describe_model(folder)


@pytest.mark.parametrize("architectures", [5, {"a": 1}, [None], [[]], "BertModel", []])
def test_architectures_of_another_type_are_not_known(folder, architectures):
    changes = {"class": None, "model_type": "x", "architectures": architectures}
    assert rewritten(folder, **changes).architecture == "?"
