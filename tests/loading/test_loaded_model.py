import json
import shutil
import warnings
from types import SimpleNamespace

import pytest

import regard
from loading import checkpoints
from regard.errors import FileError, InputError, first_line
from regard.loading import load
from regard.loading.pictures import PixelReader

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return checkpoints.foreign("masked", tmp_path_factory.mktemp("loading") / "m")


def test_ours_come_first(tmp_path):
    found = load(checkpoints.foreign("vit", tmp_path / "m"))
    assert (found.native, found.sees, found.translates, found.continues) == (
        True,
        True,
        False,
        False,
    )
    assert type(found.processor).__name__.startswith("ViTImageProcessor")


def test_a_picture_is_read_without_transformers_too(tmp_path, monkeypatch):
    place = checkpoints.foreign("vit", tmp_path / "m")
    monkeypatch.setattr("regard.loading.loaded_model.find_spec", lambda name: None)
    reader = load(place).processor
    assert isinstance(reader, PixelReader)
    assert (reader.side, reader.mean.flatten().tolist()) == (32, [0.5] * 3)


@pytest.mark.parametrize(
    ("kind", "does"), [("causal", "continues"), ("both", "translates"), ("seer", "sees")]
)
def test_what_a_model_of_transformers_does_is_known(tmp_path, kind, does):
    found = load(checkpoints.foreign(kind, tmp_path / "m"))
    told = {name: getattr(found, name) for name in ("continues", "translates", "sees")}
    assert not found.native
    assert [name for name, true in told.items() if true] == [does]


def test_a_translator_and_a_teller_of_ours_are_told_apart(tmp_path):
    assert load(checkpoints.a_translator(tmp_path / "a")).translates
    assert load(checkpoints.a_teller(tmp_path / "b")).continues


def test_the_context_is_the_least_of_what_config_and_tokenizer_say(tmp_path):
    place = tmp_path / "m"
    checkpoints.a_teller(place)
    assert load(str(place)).context_length == 37
    config = json.loads((place / "tokenizer_config.json").read_text())
    (place / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": 29}))
    assert load(str(place)).context_length == 29


def test_a_recurrent_model_reads_any_length(tmp_path):
    assert load(checkpoints.a_translator(tmp_path / "m")).context_length is None


def test_without_transformers_the_way_to_get_it_is_told(stranger, monkeypatch):
    monkeypatch.setattr("regard.loading.loaded_model.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"distilbert.*pip install 'regard\[hf\]'"):
        load(stranger)


def test_what_nobody_can_load_is_one_sentence(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bertt"}')
    with pytest.raises(FileError, match=r"transformers cannot load .* either") as caught:
        load(str(tmp_path))
    assert "no architecture" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_folder_of_ours_is_not_given_to_transformers(tmp_path):
    (tmp_path / "config.json").write_text('{"class": "Transformers"}')
    with pytest.raises(InputError, match="no class of models 'Transformers'"):
        load(str(tmp_path))


def test_a_setting_that_we_do_not_have_goes_to_transformers(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import transformers as hf

    config = hf.ViTConfig(image_size=32, patch_size=8, qkv_bias=False, **checkpoints.BODY)
    hf.ViTForImageClassification(config).save_pretrained(tmp_path)
    assert not load(str(tmp_path)).native


def test_a_model_without_a_processor_has_none(tmp_path):
    place = checkpoints.foreign("masked", tmp_path / "m")
    for each in (tmp_path / "m").glob("tokenizer*"):
        each.unlink()
    assert load(place).processor is None


def test_an_error_is_told_by_its_first_line_and_not_at_length():
    assert first_line(ValueError("\n  one \n two")) == "one"
    assert first_line(ValueError()) == "ValueError"
    assert len(first_line(ValueError("a" * 999))) == 200


def test_bars_are_for_terminals(stranger, monkeypatch):
    import transformers

    asked = []
    logging = transformers.utils.logging
    monkeypatch.setattr(logging, "disable_progress_bar", lambda: asked.append("off"))
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: True, write=print))
    load(stranger, progress=True)
    assert asked == []
    load(stranger)
    assert asked == ["off"]


def test_a_gpt_neox_folder_can_be_surveyed_and_captured_from_python(tmp_path):
    from regard.studies.survey.run import survey

    loaded = regard.load(checkpoints.foreign("causal", tmp_path / "m"), device="cpu")
    found = survey(loaded.model, loaded.tokenizer, ["I love you.", "We love tea."])
    assert (found.examples, len(found.rows)) == (2, 4)
    assert loaded.context_length == 61


def test_a_tokenizer_that_is_not_there_is_refused_in_one_sentence(tmp_path):
    place = checkpoints.a_seer(tmp_path / "m")
    with pytest.raises(InputError, match=r"m has no tokenizer: a folder with one holds"):
        load(place).tokenizer  # noqa: B018


def test_int8_is_for_native_transformers_on_the_cpu(tmp_path, stranger, monkeypatch):
    assert load(checkpoints.a_teller(tmp_path / "m"), precision="int8").continues
    with pytest.raises(InputError, match="only a Transformer of regard has an int8 form"):
        load(stranger, precision="int8")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(InputError, match='precision="int8" is for the CPU; give device="cpu"'):
        load("en-zh-transformer", precision="int8")


def test_the_repr_is_one_short_line():
    loaded = regard.load("en-zh-transformer", device="cpu")
    assert repr(loaded).startswith("LoadedModel('en-zh-transformer', Transformer, translates, ")
    assert len(repr(loaded)) < 100


def test_a_model_of_transformers_is_not_built_larger_than_its_file(stranger, tmp_path):
    shutil.copytree(stranger, tmp_path / "m")
    file = tmp_path / "m" / "config.json"
    layers = {"num_hidden_layers": 10**6, "n_layers": 10**6, "num_layers": 10**6}
    file.write_text(json.dumps(json.loads(file.read_text()) | layers))
    with pytest.raises(FileError, match=r"describes a model of more than .* parameters"):
        load(tmp_path / "m")
