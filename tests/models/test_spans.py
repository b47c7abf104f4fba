"""The best spans over all windows are those that a search of every pair finds."""

import pytest
import torch

from regard.models import spans as span_search
from regard.models.spans import WindowLogits, search_spans


def random_windows() -> list[WindowLogits]:
    generator = torch.Generator().manual_seed(5)
    return [
        WindowLogits(torch.randn(size, 2, generator=generator), torch.randn(2, generator=generator))
        for size in (7, 11)
    ]


def every_span(windows, no_answer):
    """All spans with their log-probabilities, by a plain loop."""
    null = min((window.no_answer for window in windows), key=lambda each: float(each.sum()))
    parts = [window.tokens for window in windows] + ([null[None]] if no_answer else [])
    total = torch.cat(parts).double().logsumexp(0)
    for index, window in enumerate(windows):
        logs = window.tokens.double() - total
        for first in range(len(logs)):
            for last in range(first, min(len(logs), first + span_search.LONGEST_ANSWER)):
                yield float(logs[first, 0] + logs[last, 1]), index, first, last


@pytest.mark.parametrize("no_answer", [True, False])
def test_the_best_spans_are_those_of_a_plain_search(no_answer, monkeypatch):
    monkeypatch.setattr(span_search, "LONGEST_ANSWER", 5)
    windows = random_windows()
    spans, _ = search_spans(windows, no_answer=no_answer)
    expected = sorted(every_span(windows, no_answer), reverse=True)[:5]
    for span, (log_probability, *place) in zip(spans, expected, strict=False):
        assert list(span[1:]) == place
        assert span.log_probability == pytest.approx(log_probability)


def test_no_answer_has_the_logits_of_the_window_that_believes_in_it_least():
    tokens = torch.zeros(3, 2)
    sure, unsure = torch.tensor([5.0, 5.0]), torch.tensor([1.0, 1.0])
    _, both = search_spans([WindowLogits(tokens, sure), WindowLogits(tokens, unsure)])
    total = torch.tensor([0.0] * 6 + [1.0]).logsumexp(0)
    assert both == pytest.approx(2 * float(1 - total), abs=1e-5)


def test_without_no_answer_all_spans_share_the_whole_probability():
    spans, none = search_spans([WindowLogits(torch.zeros(1, 2), torch.zeros(2))], no_answer=False)
    assert spans == [(0.0, 0, 0, 0)]
    assert none == float("-inf")
