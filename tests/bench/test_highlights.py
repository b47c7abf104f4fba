"""The numbers about highlights: gains over random, and the share of the better comparison."""

import json

import pytest
import torch
from bench.highlights import (
    SpanProbability,
    measure_file,
    measure_question,
    measure_text,
    summarise,
)

from regard.attribution.erasure import Eraser
from tasks.tiny_models import a_classifier, an_answerer

RECORD = {
    "shown": (0.4, 0.1), "attention": (0.2, 0.2), "gradient": (0.1, 0.3), "occlusion": (0.5, 0.1),
    "random": (0.1, 0.4),
}  # fmt: skip


def test_a_gain_is_counted_from_random_and_shared_by_the_better_method():
    summary = summarise([RECORD] * 7)
    assert summary["better"] == "occlusion"
    assert summary["gain"]["shown"] == pytest.approx([0.3, 0.3, 0.3])
    assert summary["share"] == pytest.approx([0.75, 0.75, 0.75])
    assert summary["sufficiency"]["random"] == pytest.approx(0.4)


def test_a_text_is_measured_with_every_ranking_and_a_short_one_is_left_out():
    model, generator = a_classifier(), torch.Generator().manual_seed(0)
    record = measure_text(model, "I love playing chess, and playing football.", generator)
    assert record is not None
    assert {*record} == {*RECORD}
    assert measure_text(model, "I love you", generator) is None


def test_a_question_is_measured_without_ever_erasing_its_answer(monkeypatch):
    model, generator = an_answerer(), torch.Generator().manual_seed(0)
    context = "I love playing chess, and playing football."
    erased: list[tuple[Eraser, frozenset[int]]] = []
    values = Eraser.values

    def record_erased(eraser, sets):
        sets = [frozenset(units) for units in sets]
        erased.extend((eraser, units) for units in sets)
        return values(eraser, sets)

    monkeypatch.setattr(Eraser, "values", record_erased)
    record = measure_question(model, "Who wrote it?", context, generator)
    assert record is not None
    assert {*record} == {*RECORD}
    together = [{eraser.texts[n] for n in units} for eraser, units in erased if len(units) > 1]
    assert together
    assert all("football" not in words for words in together)
    assert any("chess" in words for words in together)


def test_the_probability_of_a_span_is_that_of_its_ends():
    logits = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]]])
    starts, ends = logits.softmax(dim=1).unbind(-1)
    expected = starts[0, 1] * ends[0, 2]
    assert float(SpanProbability(1, 2)(logits)) == pytest.approx(float(expected))


def test_a_file_of_questions_is_for_readers(tmp_path):
    context = "I love playing chess, and playing football."
    line = json.dumps({"question": "Who wrote it?", "context": context, "answers": []})
    path = tmp_path / "questions.jsonl"
    path.write_text(f"{line}\n" * 2, encoding="utf-8")
    assert len([*measure_file(an_answerer(), path)]) == 2
    assert not [*measure_file(an_answerer(), path, most_words=6)]
