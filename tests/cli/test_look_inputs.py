import pytest

from loading import checkpoints
from regard.cli.look import LookOptions, _run_model, is_file
from regard.errors import InputError

NOTHING = dict.fromkeys(LookOptions.__dataclass_fields__)


def ask(text, model, **options):
    given = {"quiet": True, "lang": "en", "opens": False, "as_json": False}
    return _run_model(
        LookOptions(**NOTHING | given | {"text": text, "model": str(model)} | options)
    )


@pytest.mark.parametrize("text", ["a" * 9999, "a\0b", ""])
def test_a_text_need_not_be_the_name_of_anything(text):
    assert not is_file(text)


def test_what_is_written_stays_within_the_context(tmp_path):
    place = tmp_path / "m"
    checkpoints.a_teller(place, positions=7)
    seen = ask("I love you", place, new=99)
    assert len(seen.trace.streams["tokens"]) <= 7 + 1  # the last one is written, not read


def test_a_translator_may_be_stopped_early(tmp_path):
    place = checkpoints.a_translator(tmp_path / "m")
    assert len(ask("tea", place, new=2).trace.of("cross")[0].rows) <= 2


@pytest.mark.filterwarnings("ignore")
def test_a_model_without_a_tokenizer_is_refused(tmp_path):
    place = tmp_path / "m"
    checkpoints.a_teller(place)
    for each in place.glob("tokenizer*"):
        each.unlink()
    with pytest.raises(InputError, match="has no tokenizer"):
        ask("tea", place)


@pytest.mark.filterwarnings("ignore")
def test_a_seer_that_does_not_say_how_it_reads_is_refused(tmp_path):
    place = checkpoints.foreign("seer", tmp_path / "m")
    (tmp_path / "m" / "preprocessor_config.json").unlink()
    with pytest.raises(InputError, match=r"a folder that does holds preprocessor_config\.json"):
        ask(checkpoints.a_picture(tmp_path / "cat.png"), place)


@pytest.mark.filterwarnings("ignore")
def test_a_stranger_that_fails_is_one_sentence_and_ours_is_a_mistake(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("mat1 and mat2\ncannot be multiplied")

    stranger = checkpoints.foreign("masked", tmp_path / "a")
    ours = checkpoints.a_teller(tmp_path / "b")
    monkeypatch.setattr("regard.tracing.capture", fail)
    with pytest.raises(InputError, match=r"cannot run on this input \(mat1 and mat2\)"):
        ask("I love you.", stranger)
    with pytest.raises(RuntimeError, match="mat1"):
        ask("tea", ours)


@pytest.mark.filterwarnings("ignore")
def test_a_slow_tokenizer_cannot_cut_a_text(tmp_path, monkeypatch):
    place = checkpoints.foreign("masked", tmp_path / "a")
    monkeypatch.setattr("transformers.PreTrainedTokenizerFast.is_fast", False)
    with pytest.raises(InputError, match="--limit needs a fast tokenizer"):
        ask("I love you.", place, limit=3)
