import json
import signal

import pytest

from loading import checkpoints
from regard.cli.lazy import LazyCommand
from regard.cli.program import COMMANDS
from regard.studies.survey.files import load_survey
from studies.survey.models import PAIRS, TEXTS, reader, translator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("surveyed")
    reader().save_pretrained(place / "reader")
    translator().save_pretrained(place / "translator")
    (place / "texts.txt").write_text("\n".join(TEXTS))
    (place / "pairs.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS))
    return place


@pytest.fixture
def survey(run, folder, tmp_path, monkeypatch):
    monkeypatch.setitem(COMMANDS, "survey", LazyCommand("regard.cli.survey", ""))
    monkeypatch.chdir(tmp_path)

    def started(model, data, *args, **settings):
        return run("survey", str(folder / model), str(folder / data), *args, **settings)

    return started


def test_the_heads_are_printed(survey):
    result = survey("reader", "texts.txt")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "encoder.layers.1.attention  encoder" in result.stdout


def test_pairs_are_for_translators(survey):
    result = survey("translator", "pairs.tsv", "--lang", "zh")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "decoder.layers.1.cross  cross" in result.stdout
    assert "最大权重" in result.stdout


def test_a_table_and_a_page_are_written_and_no_state_is_left(survey, tmp_path):
    result = survey("reader", "texts.txt", "--out", "h.csv", "--out", "h.html", "--limit", "5")
    assert (result.exit_code, result.stdout) == (0, "5 texts, 14 heads: h.csv, h.html\n")
    assert {each.name for each in tmp_path.iterdir()} == {"h.csv", "h.html"}
    assert load_survey(tmp_path / "h.csv").examples == 5


def test_json_has_every_head(survey):
    found = json.loads(survey("reader", "texts.txt", "--json").stdout)
    assert (found["examples"], len(found["heads"]), found["out"]) == (len(TEXTS), 14, [])
    assert found["heads"][3]["entropy_sd"] > 0


def test_ctrl_c_saves_and_the_same_command_goes_on(survey, tmp_path, monkeypatch):
    whole = json.loads(survey("reader", "texts.txt", "--json", "--batch", "9").stdout)
    asked = ["reader", "texts.txt", "--json", "--batch", "9", "--out", "h.json"]
    with monkeypatch.context() as patch:
        patch.setattr("regard.cli.progress.ProgressBar.show", _interrupt)
        result = survey(*asked)
    assert result.exit_code == 130
    assert "interrupted after 1 texts; run the same command to go on" in result.stderr
    assert (tmp_path / "h.json.state").exists()
    again = json.loads(survey(*asked).stdout)
    assert again["heads"] == whole["heads"]


def _interrupt(bar, done):
    signal.raise_signal(signal.SIGINT)


def test_progress_comes_after_a_moment(survey, monkeypatch):
    clock = iter([0.0, *(3.0 + n for n in range(99))])
    monkeypatch.setattr("regard.cli.progress.monotonic", lambda: next(clock))
    assert f"/{len(TEXTS)}" in survey("reader", "texts.txt", FORCE_COLOR="1").stderr


def test_quiet_shows_no_progress(survey, monkeypatch):
    clock = iter([0.0, *(3.0 + n for n in range(99))])
    monkeypatch.setattr("regard.cli.progress.monotonic", lambda: next(clock))
    assert survey("reader", "texts.txt", "--quiet", FORCE_COLOR="1").stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reader", "gone.txt"], "no corpus"),
        (["translator", "texts.txt"], "expected a source and a target"),
        (["reader", "texts.txt", "--out", "h.xlsx"], "--out to end with .csv, .parquet, .json"),
        (["reader", "texts.txt", "--out", "gone/h.csv"], "no folder 'gone' to write h.csv to"),
        (["gone", "texts.txt"], "no folder"),
    ],
)
def test_what_cannot_be_surveyed_is_told_in_a_sentence(survey, arguments, message):
    result = survey(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("regard: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_model_without_a_tokenizer_is_refused(survey, folder):
    bare = folder / "bare"
    bare.mkdir(exist_ok=True)
    for name in ("config.json", "model.safetensors", "generation_config.json"):
        (bare / name).write_bytes((folder / "reader" / name).read_bytes())
    assert "has no tokenizer" in survey("bare", "texts.txt").stderr


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_transformers_is_surveyed_like_one_of_ours(run, folder, tmp_path):
    place = checkpoints.foreign("causal", tmp_path / "neox")
    result = run("survey", place, str(folder / "texts.txt"), "--json", "--limit", "3")
    assert (result.exit_code, result.stderr) == (0, "")
    assert {head["site"] for head in json.loads(result.stdout)["heads"]} == {
        f"gpt_neox.layers.{layer}.attention" for layer in range(2)
    }
