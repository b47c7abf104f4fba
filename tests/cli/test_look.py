import json
import os
import subprocess
import sys

import pytest
import torch
from click.testing import CliRunner

from loading import checkpoints
from regard.cli import main
from regard.storage import load_trace, save_trace
from regard.types import AttentionMap, Axis, SummaryOnly, Tokens, Trace
from regard.views import View

ENDLESS = 2053  # tokens: more than pages show one by one


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A translator with random weights: what it writes is nonsense, but it looks somewhere."""
    return checkpoints.a_translator(tmp_path_factory.mktemp("look") / "model")


@pytest.fixture(scope="module")
def teller(tmp_path_factory):
    return checkpoints.a_teller(tmp_path_factory.mktemp("look") / "teller")


@pytest.fixture(scope="module")
def patient(tmp_path_factory):
    return checkpoints.a_teller(tmp_path_factory.mktemp("look") / "patient", ENDLESS)


@pytest.fixture(scope="module")
def seer(tmp_path_factory):
    return checkpoints.a_seer(tmp_path_factory.mktemp("look") / "seer")


@pytest.fixture
def picture(tmp_path):
    return checkpoints.a_picture(tmp_path / "cat.png")


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("I love tea " * 400, encoding="utf-8")
    return str(path)


@pytest.fixture
def opened(monkeypatch):
    addresses = []
    monkeypatch.setattr("webbrowser.open", lambda each: addresses.append(each) or True)
    return addresses


@pytest.mark.parametrize("view", ["heatmap", "highlight", "flow", "heads"])
def test_every_view_is_drawn_in_the_terminal(run, folder, view):
    result = run("look", "I love you", "--model", folder, "--view", view)
    assert result.exit_code == 0
    assert "I love you → " in result.stdout
    assert "love" in result.stdout or view == "heads"


def test_a_page_is_written_where_it_is_asked_for(run, folder, tmp_path):
    page = tmp_path / "page.html"
    result = run("look", "I love you", "--model", folder, "--out", str(page))
    assert (result.exit_code, result.stdout.strip()) == (0, str(page))
    assert page.stat().st_size > 50_000


def test_the_caption_is_in_the_language_that_is_asked_for(run, folder):
    assert "颜色" in run("look", "I love you", "--model", folder, "--lang", "zh").stdout


@pytest.mark.parametrize("place", ["-", "--file"])
def test_the_text_may_come_from_stdin(folder, place):
    arguments = ["look", "--model", folder, *([place, "-"] if place == "--file" else [place])]
    result = CliRunner().invoke(main, arguments, input="I love you\n")
    assert "I love you → " in result.stdout


def test_a_model_that_continues_texts_goes_on_for_as_long_as_asked(run, teller):
    found = json.loads(run("look", "love", "--model", teller, "--new", "3", "--json").stdout)
    alone = json.loads(run("look", "love", "--model", teller, "--new", "0", "--json").stdout)
    tokens, read = (each["streams"]["tokens"] for each in (found, alone))
    assert 0 < len(tokens) - len(read) <= 3
    assert tokens[: len(read)] == read


def test_a_model_of_ours_that_only_reads_is_looked_at_too(run, tmp_path):
    model = checkpoints.a_reader(tmp_path / "m")
    found = json.loads(run("look", "I love you", "--model", model, "--json").stdout)
    assert [each["kind"] for each in found["maps"]] == ["encoder", "encoder"]
    assert found["shown"]["rows"] == found["shown"]["columns"] == found["streams"]["tokens"]


def test_the_seed_decides_what_is_drawn_by_chance(run, tmp_path):
    model = checkpoints.a_teller(tmp_path / "m")
    settings = tmp_path / "m" / "generation_config.json"
    config = json.loads(settings.read_text()) | {"do_sample": True, "temperature": 9.0}
    settings.write_text(json.dumps(config))
    drawn = [run("look", "a", "--model", model, "--seed", s, "--json").stdout for s in "112"]
    assert drawn[0] == drawn[1] != drawn[2]


def test_json_holds_the_tokens_the_maps_and_the_weights_that_are_shown(run, folder):
    found = json.loads(run("look", "I love you", "--model", folder, "--json").stdout)
    shown = found["shown"]
    assert found["text"] == "I love you"
    assert shown["columns"] == found["streams"]["source"]
    assert torch.tensor(shown["weights"]).sum(1).allclose(torch.ones(len(shown["rows"])))


def test_json_of_a_query_is_its_row_alone(run, folder):
    found = json.loads(
        run("look", "I love you", "--model", folder, "--query", "0", "--json").stdout
    )
    assert len(found["shown"]["rows"]) == len(found["shown"]["weights"]) == 1


def test_a_query_is_a_token_or_the_number_of_a_row(run, teller):
    asked = ["look", "I love you", "--model", teller, "--new", "0", "--view", "highlight"]
    found = json.loads(run(*asked, "--json").stdout)
    last = found["streams"]["tokens"][-1]
    number = str(len(found["streams"]["tokens"]) - 1)
    assert run(*asked, "--query", number).stdout == run(*asked, "--query", last).stdout


def test_a_layer_is_a_number_or_a_name(run, teller):
    by_number = run("look", "love", "--model", teller, "--layer", "0")
    by_name = run("look", "love", "--model", teller, "--layer", "decoder.layers.0.attention")
    assert by_number.stdout == by_name.stdout
    assert "decoder.layers.0.attention, mean over 3 heads" in by_name.stdout


@pytest.mark.parametrize("suffix", [".trace", ".safetensors"])
def test_a_trace_that_was_written_is_drawn_again_without_the_model(run, folder, tmp_path, suffix):
    path = str(tmp_path / f"love{suffix}")
    assert run("look", "I love you", "--model", folder, "--out", path).stdout.strip() == path
    shown = run("look", "I love you", "--model", folder).stdout.partition("\n")[2]
    assert run("look", path).stdout == run("look", "--trace", path).stdout == shown


def test_a_page_is_opened_in_a_browser(run, folder, tmp_path, opened):
    page = tmp_path / "page.html"
    result = run("look", "tea", "--model", folder, "--out", str(page), "--open")
    assert (result.exit_code, opened) == (0, [page.as_uri()])


def test_a_page_to_open_needs_no_name(run, folder, opened):
    result = run("look", "tea", "--model", folder, "--open")
    assert result.exit_code == 0
    (address,) = opened
    assert address.endswith(result.stdout.strip())


@pytest.mark.parametrize(("quiet", "said"), [([], "no browser was found"), (["--quiet"], "")])
def test_without_a_browser_the_page_is_named(run, folder, monkeypatch, quiet, said):
    monkeypatch.setattr("webbrowser.open", lambda each: False)
    result = run("look", "tea", "--model", folder, "--open", *quiet)
    assert result.exit_code == 0
    assert said in result.stderr
    assert bool(result.stderr) is bool(said)


@pytest.mark.parametrize("kind", ["causal", "masked", "classifier", "both"])
@pytest.mark.filterwarnings("ignore")
def test_a_folder_of_hugging_face_is_looked_at_whatever_its_task(run, tmp_path, kind):
    model = checkpoints.foreign(kind, tmp_path / "m")
    result = run("look", "I love you.", "--model", model, "--new", "3", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert len(found["maps"]) == (6 if kind == "both" else 2)
    assert found["shown"]["weights"]


@pytest.mark.parametrize("kind", ["seer", "vit"])
@pytest.mark.filterwarnings("ignore")
def test_a_picture_is_looked_at_by_a_model_of_hugging_face(run, tmp_path, picture, kind):
    model = checkpoints.foreign(kind, tmp_path / "m")
    result = run("look", picture, "--model", model)
    assert result.exit_code == 0
    assert "in the image" in " ".join(result.stdout.split())


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP"])
def test_a_picture_of_any_kind_is_laid_under_what_our_model_saw(run, tmp_path, seer, kind):
    path = checkpoints.a_picture(tmp_path / "cat", kind)
    data = tmp_path / "view.json"
    assert run("look", path, "--model", seer, "--out", str(data)).exit_code == 0
    (laid,) = View.load(data).scene.traces[0].pictures.values()
    assert laid.type == ("image/jpeg" if kind == "JPEG" else "image/png")


def test_a_captioner_of_ours_writes_about_a_picture(run, tmp_path, picture):
    model = checkpoints.a_captioner(tmp_path / "m")
    result = run("look", picture, "--model", model, "--view", "heatmap", "--beam", "2")
    assert result.exit_code == 0
    assert f"{picture} → " in result.stdout.replace("\n", "")


def test_a_long_file_is_cells_in_the_terminal_and_windows_in_a_page(run, patient, book, tmp_path):
    page = tmp_path / "book.html"
    asked = ["look", "--file", book, "--model", patient]
    assert "Each cell is the mean of" in " ".join(run(*asked).stdout.split())
    assert run(*asked, "--query", "1000", "--head", "1", "--out", str(page)).exit_code == 0
    assert 50_000 < page.stat().st_size < 3_000_000


def test_of_a_long_file_a_part_can_be_read(run, patient, book):
    result = run("look", "--file", book, "--model", patient, "--limit", "7", "--json")
    assert len(json.loads(result.stdout)["streams"]["tokens"]) == 7


def test_a_summary_of_a_long_text_has_no_windows(run, tmp_path):
    axis = Axis("tokens", tuple(range(ENDLESS)))
    source = SummaryOnly((2, ENDLESS, ENDLESS))
    trace = Trace(
        {"tokens": Tokens.positions(ENDLESS)}, (AttentionMap("h", "encoder", axis, axis, source),)
    )
    save_trace(trace, tmp_path / "t.trace")
    result = run("look", str(tmp_path / "t.trace"))
    assert (result.exit_code, "keeps neither weights nor an atlas" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["  "], "a text is empty"),
        (["a", "--layer", "7"], "no layer 7; there are layers 0 to 0"),
        (["a", "--layer", "nowhere"], "no layer 'nowhere'"),
        (["a", "--head", "7"], "no head 7"),
        (["a", "--head", "-1"], "Invalid value for '--head'"),
        (["a", "--out", "x.doc"], "cannot write 'x.doc'; expected a name that ends with .html"),
        (["a", "--out", "nowhere/x.html"], "there is no folder nowhere"),
        (["a", "--out", "x.png", "--open"], "--open is for pages"),
        (["a", "--view", "highlight", "--query", "zebra"], "no row"),
        (["a", "--query", "99"], "no row 99"),
        (["a", "--view", "overlay"], "no stream of this trace has a grid"),
        (["a", "--view", "cube"], "Invalid value for '--view'"),
        (["a", "--trace", "t.trace"], "leave out a text"),
        (["--trace", "t.trace"], "leave out --model"),
        (["a", "--file", "b.txt"], "give a text or --file, not both"),
        (["--file", "gone.txt"], "cannot read gone.txt: No such file"),
        (["a", "--device", "abacus"], "no device 'abacus' here; there is cpu"),
        (["a", "--device", "meta"], "'meta' holds no numbers"),
        (["a", "--lang", "fr"], "Invalid value for '--lang'"),
        ([], "stdin has no text"),
    ],
)
def test_bad_input_is_one_sentence(run, folder, args, said):
    result = run("look", *args, "--model", folder)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_text_beyond_the_context_is_refused_with_what_was_expected(run, teller, book):
    result = run("look", "--file", book, "--model", teller)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected at most 37 tokens, its context, got" in result.stderr
    assert "--limit 37" in result.stderr


@pytest.mark.parametrize("view", ["highlight", "flow"])
def test_a_long_text_is_no_text_to_highlight(run, patient, book, view):
    result = run("look", "--file", book, "--model", patient, "--view", view)
    assert (result.exit_code, "shows 1,024 tokens at most" in result.stderr) == (2, True)


def test_too_many_weights_are_not_printed(run, patient, book):
    result = run("look", "--file", book, "--model", patient, "--json")
    assert (result.exit_code, "weights are too many to print" in result.stderr) == (2, True)


def test_the_path_of_a_text_is_told_apart_from_a_text(run, folder, book):
    result = run("look", book, "--model", folder)
    assert (result.exit_code, f"to read it: --file {book}" in result.stderr) == (2, True)


def test_a_picture_is_nothing_to_read(run, folder, picture):
    result = run("look", picture, "--model", folder)
    assert (result.exit_code, "reads texts, not pictures" in result.stderr) == (2, True)


def test_a_text_is_nothing_to_see(run, seer):
    result = run("look", "a cat", "--model", seer)
    assert (result.exit_code, "looks at pictures" in result.stderr) == (2, True)


def test_a_damaged_trace_is_named(run, tmp_path, folder):
    path = tmp_path / "t.trace"
    run("look", "tea", "--model", folder, "--out", str(path))
    path.write_bytes(path.read_bytes()[:-9])
    result = run("look", str(path))
    assert (result.exit_code, "is cut short" in result.stderr) == (2, True)


def test_a_file_that_is_no_trace_is_named(run, book, folder):
    for arguments in (["--trace", book], [f"{folder}/model.safetensors"]):
        result = run("look", *arguments)
        assert (result.exit_code, "is no trace" in result.stderr) == (2, True)


def test_without_a_shipped_model_one_must_be_named(run, monkeypatch):
    monkeypatch.setattr("regard.models.shipped_models", lambda: ())
    result = run("look", "I love you")
    assert result.exit_code == 2
    assert "name a model: regard look --model" in result.stderr


def test_a_page_that_cannot_be_written_is_one_sentence(run, folder, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("regard.storage.save_trace", full)
    result = run("look", "tea", "--model", folder, "--out", str(tmp_path / "t.trace"))
    assert (result.exit_code, "No space left on device" in result.stderr) == (2, True)


def test_the_trace_that_is_written_is_the_one_that_was_seen(run, folder, tmp_path):
    path = tmp_path / "t.trace"
    run("look", "I love you", "--model", folder, "--out", str(path))
    assert len(load_trace(path).of("cross")) == 1


def test_the_shipped_translator_is_the_usual_one(run):
    assert "I love you → 我爱你" in run("look", "I love you").stdout


def test_a_page_goes_whole_through_a_pipe_without_a_terminal(folder):
    command = [sys.executable, "-m", "regard", "look", "I love you", "--model", folder]
    env = os.environ | {"PYTHONIOENCODING": "cp1252", "COLUMNS": "80"}
    ran = subprocess.run(command, capture_output=True, check=True, env=env)
    assert b"love" in ran.stdout
    assert b"\x1b" not in ran.stdout
    assert ran.stderr == b""


def test_a_limit_that_leaves_no_text_is_refused(run, patient, book):
    result = run("look", "--file", book, "--model", patient, "--limit", "1")
    assert (result.exit_code, "--limit 1 leaves no text" in result.stderr) == (2, True)


@pytest.mark.parametrize("name", ["cat.png", "love.trace", "图/猫.JPG"])
def test_the_name_of_a_file_that_is_not_there_is_no_text(run, name):
    result = run("look", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"there is no file {name}" in result.stderr
