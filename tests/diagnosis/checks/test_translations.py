import torch

from diagnosis.faults import CROSS, at, diagnosed, on_column, the_one, traced
from regard.diagnosis.checks.translations import word_coverage, word_positions
from regard.types import Tokens
from traces import a_trace


def column_of(word):
    tokens = traced(numbers=[1])[0].streams["source"]
    return next(n for n, text in enumerate(tokens.texts) if text.strip("▁") == word)


def test_a_source_word_that_no_head_looks_at_is_dropped_by_name():
    column = column_of("books")

    def without(weights, call):
        weights[..., column] = 0
        return weights / weights.sum(dim=-1, keepdim=True)

    found = the_one(diagnosed(at(CROSS, without), [1]), "dropped")
    assert '"books"' in found.sentence()
    assert found.view.columns == (column,)
    assert "弟弟" in found.sentence("zh")


def test_a_source_word_that_is_looked_at_again_and_again_is_repeated_by_name():
    column = column_of("books")
    often = at(CROSS, lambda w, call: 0.2 * w + 0.8 * on_column(column)(w, call))
    findings = diagnosed(often, [1])
    found = next(each for each in findings if each.check == "repeated")
    assert '"books"' in found.sentence()
    assert not [each for each in findings if each.severity == "bug"]


def test_the_layer_that_aligns_best_is_drawn():
    often = at(CROSS, on_column(column_of("books")))
    found = next(each for each in diagnosed(often, [1]) if each.check == "repeated")
    assert found.view.site == CROSS[0]  # alignment_layer of its config


def test_pieces_are_words_where_a_script_has_no_spaces():
    tokens = Tokens(("▁see", "ing", "我", "们", "。"), words=(0, 0, 1, 1, 2))
    assert word_positions(tokens) == [(0, 1), (2,), (3,)]


def test_nothing_is_covered_where_nothing_is_known():
    trace = a_trace()
    assert word_coverage(trace, list(trace.maps)) == {}
    assert word_coverage(trace, [trace["h.2"]]) == {}


def test_what_words_receive_adds_up_to_the_rows():
    (trace,) = traced(numbers=[1])
    maps = list(trace.of("cross"))
    whole = sum(each.weights().mean(dim=0) for each in maps) / len(maps)
    found = word_coverage(trace, maps)
    columns = [place for unit in found for place in unit]
    total = sum(each.sum() for each in found.values())
    torch.testing.assert_close(total, whole[:, columns].double().sum(), atol=1e-5, rtol=0)
