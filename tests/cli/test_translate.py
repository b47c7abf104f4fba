import json
import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from models.generation.scripted_models import EOS, START, Letters, Memory, Scribe
from regard.cli import main
from regard.models import Captioner


class Echo(Scribe):
    """Translates a text of letters into itself, in capitals."""

    tokenizer = Letters()

    def __init__(self):
        super().__init__(vocab=259, reads_source=True, max_length=50)

    def begin(self, inputs, attention_mask=None):
        return Memory(inputs, inputs[:, :0])

    def step(self, state, tokens):
        place, width = state.read.shape[1], state.hidden.shape[1]
        ids = state.hidden[:, place] if place < width else state.hidden[:, 0] * 0
        ids = ids.where(ids != START, EOS)
        logits = self.out.new_full((len(ids), 259), -9.0)
        small = (ids >= 3 + ord("a")) & (ids <= 3 + ord("z"))
        logits.scatter_(1, (ids - 32 * small)[:, None], 9.0)
        return logits, Memory(state.hidden, state.read.new_zeros(len(ids), place + 1))


@pytest.fixture
def echo(serve):
    return serve(Echo())


@pytest.fixture
def translate(run, echo):
    return lambda *args, **settings: run("translate", "--model", "m", *args, **settings)


def test_each_text_is_translated_on_a_line_of_its_own(translate):
    result = translate("one", "深圳 two")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "ONE\n深圳 TWO\n", "")


def test_lines_come_from_a_file_and_empty_ones_stay(translate, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes("\ufeffone\r\n\n两 two\n".encode())
    assert translate("--file", str(path)).stdout == "ONE\n\n两 TWO\n"


@pytest.mark.parametrize("arguments", [[], ["--file", "-"]])
def test_lines_come_from_stdin(echo, arguments):
    lines = "".join(f"line {number}\n" for number in range(37))
    result = CliRunner().invoke(main, ["translate", "--model", "m", *arguments], input=lines)
    assert result.stdout == lines.upper()


def test_json_is_an_object_on_a_line_for_each_text(translate):
    first, second = map(json.loads, translate("one", "two", "--json").stdout.splitlines())
    assert first["source"] == "one"
    assert [found["text"] for found in first["translations"]] == ["ONE"]
    assert first["translations"][0]["score"] == pytest.approx(0, abs=1e-3)
    assert second["source"] == "two"


def test_several_of_each_come_with_their_scores_best_first(translate):
    lines = translate("one", "--beam", "3", "--best", "2").stdout.splitlines()
    scores = [float(line.split("\t")[0]) for line in lines]
    assert lines[0].endswith("\tONE")
    assert scores == sorted(scores, reverse=True)


def test_the_options_reach_the_model(translate):
    assert translate("sentence", "--max-length", "5").stdout == "SENT\n"
    drawn = [translate("a", "--sample", "--temperature", "9", "--seed", s).stdout for s in "112"]
    assert drawn[0] == drawn[1] != drawn[2]
    assert translate("a", "--sample", "--top-k", "1", "--seed", "0").stdout == "A\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one", ""], "a text is empty; give some"),
        (["one", "--file", "f.txt"], "give texts or --file, not both"),
        (["--file", "gone.txt"], "cannot read gone.txt: No such file"),
        (["one", "--best", "2"], "--best 2 is more than --beam 1; .*, or for --sample"),
        (["one", "--temperature", "0.5"], "--temperature is for sampling; add --sample"),
        (["one", "--sample", "--temperature", "0"], "--temperature should be more than 0"),
        (["one", "--beam", "0"], "Invalid value for '--beam'"),
        ([], "stdin has no text"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(translate, arguments, message):
    result = translate(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert re.match(f"regard: {message}", line)


def test_a_file_that_is_no_text_is_said_to_be_so(translate, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    result = translate("--file", str(tmp_path / "bytes"))
    assert (result.exit_code, "is not UTF-8 text" in result.stderr) == (2, True)


def test_without_a_shipped_model_one_must_be_named(run, monkeypatch):
    monkeypatch.setattr("regard.models.shipped_models", lambda: ())
    result = run("translate", "one")
    assert result.exit_code == 2
    assert result.stderr.startswith("regard: en-zh-transformer is not shipped with this version")


def test_a_folder_that_is_not_there_is_said_to_be_so(run, tmp_path):
    result = run("translate", "one", "--model", str(tmp_path / "gone"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no folder" in result.stderr


def test_a_model_that_continues_texts_is_sent_to_the_other_command(run, serve):
    serve(Scribe())
    result = run("translate", "one", "--model", "m")
    assert (result.exit_code, result.stderr) == (
        2,
        "regard: m continues texts; use regard generate\n",
    )


def test_a_model_without_a_tokenizer_is_refused(run, serve):
    serve(Scribe(reads_source=True))
    result = run("translate", "one", "--model", "m")
    assert (result.exit_code, "m has no tokenizer" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("language", "line"),
    [("en", "16 of 40 lines, about 4 s left"), ("zh", "已完成 16/40 行，约剩 4 秒")],
)
def test_progress_is_told_on_stderr_when_it_takes_long(
    translate, tmp_path, monkeypatch, language, line
):
    clock = iter([0.0, 3.0, 6.0, 9.0])
    monkeypatch.setattr("regard.cli.progress.monotonic", lambda: next(clock))
    path = tmp_path / "lines.txt"
    path.write_text("one\n" * 40)
    result = translate("--file", str(path), "--lang", language)
    assert result.stdout == "ONE\n" * 40
    assert result.stderr.splitlines()[0] == line
    assert len(result.stderr.splitlines()) == 2


def test_quick_work_tells_no_progress(translate, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("one\n" * 20)
    assert translate("--file", str(path)).stderr == ""


def test_an_interruption_leaves_what_is_done(translate, monkeypatch, tmp_path):
    def tired(self, inputs, attention_mask=None):
        if len(inputs) < 16:
            raise KeyboardInterrupt
        return Memory(inputs, inputs[:, :0])

    monkeypatch.setattr(Echo, "begin", tired)
    path = Path(tmp_path / "lines.txt")
    path.write_text("one\n" * 21)
    result = translate("--file", str(path))
    assert (result.exit_code, result.stdout) == (130, "ONE\n" * 16)
    assert result.stderr.strip() == "regard: interrupted"


def test_eight_bits_are_asked_of_the_model(translate, echo):
    assert translate("--int8", "one").stdout == "ONE\n"
    assert (echo["precision"], echo["device"]) == ("int8", None)
    translate("one")
    assert echo["precision"] is None


def test_what_is_written_can_go_to_a_file(translate, tmp_path):
    path = tmp_path / "out.txt"
    result = translate("one", "两", "--out", str(path))
    assert (result.exit_code, result.stdout) == (0, f"{path}\n")
    assert path.read_text("utf-8") == "ONE\n两\n"
    assert list(tmp_path.iterdir()) == [path]


def test_quiet_tells_no_progress(translate, tmp_path, monkeypatch):
    clock = iter([0.0, 3.0, 6.0, 9.0])
    monkeypatch.setattr("regard.cli.progress.monotonic", lambda: next(clock))
    path = tmp_path / "lines.txt"
    path.write_text("one\n" * 40)
    result = translate("--file", str(path), "--quiet")
    assert (result.stdout, result.stderr) == ("ONE\n" * 40, "")


def test_a_model_that_sees_is_no_translator(run, serve):
    serve(Captioner(vocab=11, d_embed=3, hidden=5, widths=(2,)))
    result = run("translate", "one", "--model", "m")
    assert (result.exit_code, "m writes no texts" in result.stderr) == (2, True)


def test_eight_bits_are_for_the_cpu(run, monkeypatch):
    elsewhere = torch.device("meta")
    monkeypatch.setattr("regard.loading.loaded_model.find_device", lambda name: elsewhere)
    result = run("translate", "one", "--model", "m", "--int8")
    assert (result.exit_code, "--int8 is for the CPU" in result.stderr) == (2, True)
