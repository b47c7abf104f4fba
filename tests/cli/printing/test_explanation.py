import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from regard.cli.printing.explanation import label_words, print_explanation
from regard.cli.printing.number_tables import format_number
from regard.models.text_explanation import explain_text

LONG = "the internationalization of 中华人民共和国 the café 👍 的 " + "词 " * 9


def _shown(text="我 爱 中国", *, width=80, language="en", **asked):
    explanation = explain_text(text, **asked)
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_explanation(explanation, language, console, one_word=asked.get("query") is not None)
    return explanation, console.file.getvalue()


def _numbers(tensor):
    return [format_number(value) for value in tensor.flatten().tolist()]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("query", [None, "爱"])
def test_the_steps_fit_the_terminal_with_every_number(width, language, query):
    explanation, output = _shown(width=width, language=language, query=query)
    assert max(cell_len(line) for line in output.splitlines()) <= width
    rows, steps = explanation.queries, explanation.steps
    for part in (steps.similarities[rows], steps.weights[rows], steps.context[rows]):
        assert set(_numbers(part)) <= set(output.split())


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("query", [None, "的"])
def test_long_words_long_texts_and_long_vectors_fit_too(width, query):
    _, output = _shown(LONG, width=width, query=query, dim=50)
    assert max(cell_len(line) for line in output.splitlines()) <= width
    assert "more" in output
    assert "--json" in output


def test_the_rows_of_a_table_end_in_one_column_whatever_the_words():
    _, output = _shown("我 the 中国 👍 a", query="我", language="zh")
    lines = output.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("词 "))
    assert len({cell_len(line.rstrip()) for line in lines[start : start + 7]}) == 1


def test_a_query_shows_the_weighted_values_above_their_sum():
    explanation, output = _shown(query="爱")
    table = output[output.index("Step 3") :].splitlines()[3:]
    rows = [line.split() for line in table if "─" not in line]
    assert [row[0] for row in rows] == ["我", "爱", "中国", "context"]
    values = [*explanation.steps.weighted_values[1], explanation.steps.context[1]]
    assert [row[1:] for row in rows] == [_numbers(value) for value in values]


def test_every_word_shows_the_matrix_of_weights():
    explanation, output = _shown()
    table = output[output.index("Step 2") : output.index("Step 3")].splitlines()[4:7]
    weights = [_numbers(row) for row in explanation.steps.weights]
    assert [line.split()[1:] for line in table] == weights


@pytest.mark.parametrize(("language", "masked"), [("en", "masked"), ("zh", "遮蔽")])
def test_masked_keys_are_shown_as_such(language, masked):
    assert _shown(language=language, mask="causal")[1].count(masked) == 3
    assert _shown(language=language, mask="causal", query="爱")[1].count(masked) == 1


def test_a_heavier_weight_has_a_longer_bar():
    explanation, output = _shown(query="爱")
    bars = [line.count("█") for line in output.splitlines() if "█" in line]
    assert bars == [int(40 * weight) for weight in explanation.steps.weights[1].tolist()]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_step_has_its_formula_on_a_line(language):
    lines = _shown(language=language)[1].splitlines()
    assert all(f"  {formula}" in lines for formula in ("e = q · k / √d", "α = softmax(e)"))
    assert "  c = Σ αᵢ vᵢ" in lines


def test_random_vectors_and_untrained_parameters_are_said_to_be_so():
    _, output = _shown(mechanism="additive", seed=3, width=200)
    assert "4 random numbers (seed 3): they carry no meaning" in output
    assert "The parameters of additive are untrained, random from seed 3." in output


def test_given_vectors_are_said_to_come_from_their_file(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("我 1 2\n爱 3 4\n", encoding="utf-8")
    _, output = _shown("我 爱", vectors=path, width=200)
    assert f"2 numbers from {path}." in output
    assert "random" not in output


def test_a_word_that_occurs_again_carries_its_position():
    assert label_words(["the", "cat", "the"]) == ["the:1", "cat", "the:3"]
