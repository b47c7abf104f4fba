import json

import pytest
from rich.cells import cell_len
from torch import nn

import regard
from regard.attention.entry import LAWS


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_table_fits_the_terminal_and_names_every_mechanism(run, width, lang):
    output = run("mechanisms", "--lang", lang, width=width).stdout
    assert max(cell_len(line) for line in output.splitlines()) <= width
    for entry in regard.catalog.values():
        assert all(name in output for name in (entry.name, *entry.aliases, str(entry.year)))


@pytest.mark.parametrize("width", [40, 200])
def test_the_table_shows_formula_paper_and_cost(run, width):
    output = run("mechanisms", width=width).stdout
    for part in ("dot (multiplicative, luong-dot)", "e = q · k\n", "Luong 2015", "O(n m d)"):
        assert part.strip() in output


def test_the_table_is_grouped_by_family(run):
    lines = [line.strip() for line in run("mechanisms").stdout.splitlines()]
    families = ["Score", "Normalizer", "Reach", "Position", "Heads"]
    assert [line for line in lines if line in families] == families


def test_the_output_has_no_colour_when_it_is_not_a_terminal(run):
    assert "\x1b" not in run("mechanisms").stdout + run("mechanisms", "dot").stdout


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", regard.catalog)
def test_all_about_one_fits_the_terminal_and_loses_nothing(run, name, lang, width):
    result = run("mechanisms", name, "--lang", lang, width=width)
    assert result.exit_code == 0
    assert max(cell_len(line) for line in result.stdout.splitlines()) <= width
    assert "…" not in result.stdout.replace("head₁ …", "")
    assert str(regard.catalog[name].year) in result.stdout


def test_all_about_one_in_english(run):
    output, entry = run("mechanisms", "bahdanau", width=200).stdout, regard.catalog["additive"]
    facts = (entry.formula, entry.paper, entry.time, entry.memory, entry.summary.en)
    for part in (*facts, "bahdanau, concat", "2015", 'regard.catalog["additive"].build(64)'):
        assert part in output
    assert all(law in output and sentence in output for law, sentence in LAWS.items())


def test_all_about_one_in_chinese(run):
    output, entry = run("mechanisms", "additive", "--lang", "zh").stdout, regard.catalog["additive"]
    for part in (entry.summary.zh, "和为一", "O(n m h), h 为隐层宽度", "别名"):
        assert part in output


def test_a_law_that_is_not_obeyed_comes_with_its_reason(run):
    lines = run("mechanisms", "local-p", width=200).stdout.splitlines()
    laws = [line.split(maxsplit=1) for line in lines if line.startswith(("yes ", "no "))]
    assert sum(answer == "no" for answer, _ in laws) == 2
    assert len(laws) == len(LAWS)
    assert any("the Gaussian factor comes after the softmax" in law for _, law in laws)


def test_an_unknown_mechanism_is_told_the_nearest(run):
    result = run("mechanisms", "adittive")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("regard: no mechanism 'adittive'; did you mean 'additive'?")
    assert result.stderr.count("\n") == 1


def test_json_holds_the_whole_catalog_in_every_language_alike(run):
    output = run("mechanisms", "--json").stdout
    assert output == run("mechanisms", "--json", "--lang", "zh").stdout
    assert [record["name"] for record in json.loads(output)] == list(regard.catalog)


def test_json_of_one_is_its_record(run):
    record = json.loads(run("mechanisms", "rope", "--json").stdout)
    entry = regard.catalog["rotary"]
    assert record["formula"] == entry.formula
    assert record["summary"] == {"en": entry.summary.en, "zh": entry.summary.zh}
    assert record["breaks"] == entry.breaks
    assert set(record["obeys"]) | set(record["breaks"]) == set(LAWS)


@pytest.mark.parametrize("name", regard.catalog)
def test_the_line_of_python_builds_the_mechanism(run, name):
    line = json.loads(run("mechanisms", name, "--json").stdout)["python"]
    assert isinstance(eval(line, {"regard": regard}), nn.Module)  # noqa: S307
