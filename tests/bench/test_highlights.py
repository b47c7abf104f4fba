"""The numbers about highlights: gains over random, and the share of the better comparison."""

import pytest
import torch
from bench.highlights import measure_text, summarise

from tasks.tiny_models import a_classifier

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
