import json

import pytest
import torch

import regard
from regard.models import Recurrent, Tokenizer, Transformer
from regard.models.generation import GenerationSettings
from regard.types import Trace

LINES = ["I love you", "我爱你", "we love tea", "我们爱茶"] * 5
TEXTS = ("we love tea and I love you", "I love tea and we love you")


def dressed(model, tokenizer):
    model.tokenizer = tokenizer
    model.generation = GenerationSettings().replace(
        decoder_start_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        max_new_tokens=7,
    )
    return model.eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models with random weights: what they say is nonsense, but they look somewhere."""
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("diagnose")
    tokenizer = Tokenizer.train(LINES, "bpe", 320, chinese="character")
    size = len(tokenizer)
    sizes = {"vocab": size, "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
    models = {
        "rnn": Recurrent(vocab=size, d_embed=7, hidden=10, dropout=0.0),
        "teller": Transformer(kind="decoder", positions="rotary", max_positions=5, **sizes),
        "encoder": Transformer(kind="encoder", **sizes),
    }
    for name, model in models.items():
        dressed(model, tokenizer).save_pretrained(place / name)
    return place


@pytest.fixture
def diagnose(run, folder):
    def started(model, *args, **settings):
        name = str(folder / model) if (folder / model).is_dir() else model
        return run("diagnose", name, *args, **settings)

    return started


@pytest.fixture(scope="module")
def traces(folder):
    """A trace that looks at all alike, saved twice."""
    even = Trace.from_weights(torch.full((1, 11, 11), 1 / 11), list("abcdefghijk"))
    for name in ("one.trace", "two.trace"):
        regard.save_trace(even, folder / name)
    return [str(folder / "one.trace"), str(folder / "two.trace")]


def test_findings_are_told_with_what_was_diagnosed(diagnose):
    result = diagnose("rnn", *TEXTS)
    assert (result.exit_code, result.stderr) == (0, "")
    first, *rest = result.stdout.splitlines()
    assert "heads 1, sites 1, texts 2" in first
    assert "In cross-attention, a head attends to" in " ".join(rest)
    assert "Nothing found by: numeric, sums" in result.stdout
    assert "Not run: leak-behaviour" in result.stdout


@pytest.mark.parametrize(("lang", "lead"), [("en", "Observation: "), ("zh", "观察：")])
def test_a_short_diagnosis_is_three_sentences_at_most(diagnose, traces, lang, lead):
    told = diagnose(*traces, "--short", "--lang", lang).stdout
    assert 1 <= told.count(lead) <= 3
    assert told.startswith({"en": "Warning: ", "zh": "警告："}[lang])
    assert "usually means" not in told


def test_that_nothing_was_found_is_a_sentence_too(diagnose, traces, monkeypatch):
    monkeypatch.setattr("regard.diagnosis.diagnose", lambda *_, **__: [])
    assert diagnose(*traces, "--short").stdout.startswith("No findings.")


def test_chinese_is_spoken(diagnose):
    result = diagnose("rnn", *TEXTS, "--lang", "zh")
    assert "在交叉注意力中，一个头平均关注" in result.stdout
    assert "未发现问题的检查" in result.stdout


def test_json_has_every_finding_and_the_checks_that_ran(diagnose):
    found = json.loads(diagnose("teller", *TEXTS, "--json").stdout)
    assert (found["traces"], found["texts"]) == (2, list(TEXTS))
    assert found["counts"]["warning"] >= 1
    (length,) = (each for each in found["findings"] if each["check"] == "length")
    assert (length["limit"], length["severity"]) == (5, "warning")
    assert "leak" in found["checks"]
    assert "leak-behaviour" not in found["checks"]


def test_a_page_is_written_where_it_is_asked_for(diagnose, tmp_path):
    page = tmp_path / "report.html"
    result = diagnose("encoder", *TEXTS, "--out", str(page))
    assert (result.exit_code, result.stdout.strip()) == (0, str(page))
    assert page.stat().st_size > 50_000


@pytest.mark.parametrize(("wanted", "code"), [("warning", 1), ("bug", 0)])
def test_the_exit_code_tells_what_was_found(diagnose, wanted, code):
    assert diagnose("teller", TEXTS[0], "--fail-on", wanted).exit_code == code


def test_deep_runs_the_model_again(diagnose):
    found = json.loads(diagnose("teller", TEXTS[0], "--deep", "--json").stdout)
    assert "padding-behaviour" in found["checks"]
    assert "Not run" not in diagnose("teller", TEXTS[0], "--deep").stdout


def test_the_lines_of_a_file_are_texts(diagnose, tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("I love you\n\nwe love tea\nI love tea\n")
    found = json.loads(diagnose("encoder", "--file", str(file), "--limit", "2", "--json").stdout)
    assert found["texts"] == ["I love you", "we love tea"]


def test_saved_traces_need_no_model(diagnose, traces):
    result = diagnose(*traces)
    assert "attends to all tokens equally" in " ".join(result.stdout.split())
    found = json.loads(diagnose(*traces, "--json").stdout)
    assert (found["traces"], found["counts"]["warning"]) == (2, 1)


def test_what_is_expected_makes_a_bug(diagnose, traces):
    result = diagnose(traces[0], "--expect", "causal", "--fail-on", "bug")
    assert result.exit_code == 1
    assert "later tokens" in result.stdout


def test_more_findings_of_a_kind_are_counted_and_all_are_told_on_demand(diagnose, folder):
    weights = torch.full((5, 11, 11), 1 / 11)
    regard.save_trace(Trace.from_weights(weights, list("abcdefghijk")), folder / "five.trace")
    name = str(folder / "five.trace")
    assert "3 more findings of uniform" in diagnose(name).stdout
    assert "more findings" not in diagnose(name, "--all").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["rnn", "  "], "a text is empty"),
        (["gone/away", "a"], "no folder"),
        (["rnn", "a", "--fail-on", "observation"], "Invalid value for '--fail-on'"),
        (["one.trace", "two"], "expected saved traces after the first, got 'two'"),
        (["one.trace", "--deep"], "leave out --deep"),
        (["one.trace", "--out", "x.doc"], "cannot save a view as"),
        (["one.trace", "--out", "gone/x.html"], "cannot write"),
    ],
)
def test_bad_input_is_one_sentence(diagnose, traces, folder, args, message):
    model, *rest = args
    name = str(folder / model) if model.endswith(".trace") else model
    result = diagnose(name, *rest)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_trace_that_is_not_there_is_named_before_stdin_is_read(run):
    result = run("diagnose", "gone.trace")
    assert result.exit_code == 2
    assert "there is no file gone.trace; give a trace that is there, or a model" in result.stderr
