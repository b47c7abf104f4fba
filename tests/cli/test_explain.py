import json
import re

import pytest
import torch
from rich.cells import cell_len

import regard
from regard.cli.printing.number_tables import format_number


def test_the_numbers_are_those_of_the_library(run):
    result = run("explain", "我 爱 中国", "--query", "爱")
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).double()
    steps = regard.explain(x, x, x)
    shown = set(result.stdout.split())
    assert result.exit_code == 0
    for part in (steps.similarities[1], steps.weights[1], steps.weighted_values[1]):
        assert {format_number(value) for value in part.flatten().tolist()} <= shown


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_width_is_that_of_the_terminal(run, width):
    output = run("explain", "我 爱 中国 北京天安门 internationalization", width=width).stdout
    assert max(cell_len(line) for line in output.splitlines()) <= width
    assert "\x1b" not in output


def test_vectors_come_from_a_file(run, tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("3 2\n我 1 0\n爱 0 1\n中国 1 1\n", encoding="utf-8")
    output = run("explain", "我爱", "--vectors", str(path), "--mechanism", "dot", "--json").stdout
    record = json.loads(output)
    assert record["similarities"] == [[1.0, 0.0], [0.0, 1.0]]
    assert (record["mechanism"], record["vectors_from"]) == ("dot", str(path))


def test_json_is_the_same_in_every_language(run):
    arguments = ("explain", "我 爱 中国", "--query", "2", "--mask", "causal", "--json")
    output = run(*arguments, "--lang", "en").stdout
    assert output == run(*arguments, "--lang", "zh").stdout
    assert json.loads(output)["queries"] == [{"position": 2, "word": "爱"}]


def test_a_seed_gives_the_same_output_twice_and_another_seed_another(run):
    first, second, other = (run("explain", "a b", "--seed", seed).stdout for seed in "112")
    assert first == second != other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([""], "a text is empty"),
        (["我 爱", "--query", "恨"], "--query '恨' is not in the text; .* 1 我, 2 爱"),
        (["a b", "--mechanism", "multi-head"], "multi-head does more than compare, weigh and mix"),
        (["a b", "--mechanism", "adittive"], "no mechanism 'adittive'; did you mean 'additive'"),
        (["a b", "--vectors", "gone.txt"], "cannot read the vectors gone.txt"),
        (["a " * 2000, "--dim", "2"], "explain is for small examples"),
        (["a b", "--vectors", "v.txt", "--dim", "3"], "--dim is for random vectors"),
        (["a b", "--mask", "future"], "Invalid value for '--mask'"),
        (["a b", "--dim", "0"], "Invalid value for '--dim'"),
        (["a b", "--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(run, arguments, message):
    result = run("explain", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    first, *hint = result.stderr.splitlines()
    assert re.match(f"regard: {message}", first)
    assert hint in ([], ["Try 'regard explain --help'."])


def test_the_help_says_how_words_and_queries_are_read(run):
    text = " ".join(run("explain", "--help").stdout.split())
    assert "Chinese text without white space is taken character by character" in text
    assert "a position counted from 1" in text
