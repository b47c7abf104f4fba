"""The benchmark of tasks: both sides read the same weights and find the same."""

import pytest
from bench.__main__ import tables
from bench.measure import Effort
from bench.tasks import OURS, answer_contenders, class_contenders, speed_rows

TINY = {
    "hidden_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
}
CASES = {
    "SequenceClassification": class_contenders,
    "QuestionAnswering": answer_contenders,
}


@pytest.mark.parametrize("kind", CASES)
def test_each_peer_gives_our_result_and_has_a_time(kind, monkeypatch):
    monkeypatch.setattr(Effort, "repeats", 1)
    rows = list(speed_rows(kind, CASES[kind], "task", Effort(quick=True), TINY))
    assert [row.case for row in rows[:: len(rows) // 2]] == ["task, 1 text", "task, 32 texts"]
    assert all(row.peer != OURS and row.ratio is not None and not row.note for row in rows)


def test_the_runner_has_both_tables():
    assert {"tasks.classify", "tasks.answer"} <= {*tables()}
