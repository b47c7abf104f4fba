import json
import re

import pytest
from click.testing import CliRunner

from loading import checkpoints
from models.generation.scripted_models import EOS, Letters, Reciter, Scribe
from regard.cli import main


class Poet(Reciter):
    """Goes on with the same words, whatever the prompt."""

    def __init__(self):
        super().__init__(" 世界 goes on.")
        self.reads_source = False


@pytest.fixture
def poet(serve):
    return serve(Poet())


@pytest.fixture
def write(run, poet):
    return lambda *args, **settings: run("generate", "--model", "m", *args, **settings)


def test_the_prompt_is_continued(write):
    result = write("The")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "The 世界 goes on.\n", "")


def test_each_prompt_of_a_file_is_continued(write, tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("A\n\nB\n")
    assert write("--file", str(path)).stdout == "A 世界 goes on.\nB 世界 goes on.\n"


def test_prompts_come_from_stdin(poet):
    result = CliRunner().invoke(main, ["generate", "--model", "m"], input="A\nB\n")
    assert result.stdout == "A 世界 goes on.\nB 世界 goes on.\n"


def test_the_text_is_shown_while_it_is_written(write, monkeypatch):
    shown = []

    def step(self, state, tokens):
        if len(shown) == 3:
            raise KeyboardInterrupt
        shown.append(tokens)
        return Reciter.step(self, state, tokens)

    monkeypatch.setattr(Poet, "step", step)
    result = write("The")
    assert (result.exit_code, result.stdout) == (130, "The ")
    assert result.stderr.strip() == "regard: interrupted"


def test_json_holds_the_prompt_and_the_texts_with_their_scores(write):
    record = json.loads(write("The", "--json", "--beam", "2", "--best", "2").stdout)
    assert record["prompt"] == "The"
    assert record["texts"][0]["text"] == "The 世界 goes on."
    assert record["texts"][0]["score"] > record["texts"][1]["score"]


def test_several_of_each_come_with_their_scores(write):
    lines = write("The", "--beam", "2", "--best", "2").stdout.splitlines()
    assert re.fullmatch(r"-\d\.\d{4}\tThe 世界 goes on\.", lines[0])


def test_a_stop_ends_the_text(write):
    assert write("The", "--stop", "goes", "--stop", "nowhere").stdout == "The 世界 goes\n"


def test_the_seed_decides_what_is_drawn(write):
    drawn = [write("T", "--sample", "--temperature", "5", "--seed", s).stdout for s in "112"]
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "a text is empty"),
        (["a", "--max-length", "1"], "--max-length 1 leaves no room after the 1 tokens"),
        (["a", "--top-p", "2", "--sample"], "--top-p should be more than 0 and at most 1, got 2.0"),
        (["a", "--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(write, arguments, message):
    result = write(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.match(f"regard: {message}", result.stderr)


def test_without_a_shipped_model_one_must_be_named(run, monkeypatch):
    monkeypatch.setattr("regard.models.shipped_models", lambda: ())
    result = run("generate", "one")
    assert (result.exit_code, "name a model: regard generate --model" in result.stderr) == (2, True)


def test_a_model_that_translates_is_sent_to_the_other_command(run, serve):
    serve(Scribe(reads_source=True))
    result = run("generate", "one", "--model", "m")
    assert (result.exit_code, result.stderr) == (2, "regard: m translates; use regard translate\n")


def test_letters_are_what_the_poet_reads():
    assert Letters().decode([*Letters().encode("世"), EOS]) == "世"


def test_what_is_written_can_go_to_a_file(write, tmp_path):
    path = tmp_path / "out.jsonl"
    assert write("The", "--json", "--out", str(path)).stdout == f"{path}\n"
    assert json.loads(path.read_text("utf-8"))["texts"][0]["text"] == "The 世界 goes on."


def test_the_shipped_teller_is_the_usual_one_where_there_is_one(run, poet, monkeypatch):
    monkeypatch.setattr("regard.models.shipped_models", lambda: ("stories",))
    assert run("generate", "The").stdout == "The 世界 goes on.\n"
    assert poet["name"] == "stories"


@pytest.mark.filterwarnings("ignore")
def test_a_model_of_transformers_is_sent_to_the_commands_that_take_it(run, tmp_path):
    result = run("generate", "one", "--model", checkpoints.foreign("causal", tmp_path / "m"))
    assert result.exit_code == 2
    assert "is a GPTNeoXForCausalLM of transformers, which regard look, diagnose" in result.stderr
    assert len(result.stderr.splitlines()) == 1
