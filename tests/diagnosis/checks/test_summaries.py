import pytest
import torch

from regard.diagnosis import CHECKS, diagnose
from regard.types import Trace

PORTRAITS = [CHECKS[f"summary-{kind}"] for kind in ("encoder", "decoder", "cross")]


def test_even_heads_look_at_every_token():
    trace = Trace.from_weights(torch.full((2, 11, 11), 1 / 11), list("abcdefghijk"))
    (found,) = diagnose(trace, checks=PORTRAITS)
    assert found.check == "summary-encoder"
    assert found.value == pytest.approx(11)
    assert "11.0 of 11.0 tokens" in found.sentence()


def test_a_translation_that_goes_from_start_to_end_is_in_order():
    trace = Trace.from_weights(torch.eye(11)[None], list("abcdefghijk"), list("lmnopqrstuv"))
    (found,) = diagnose(trace, checks=PORTRAITS)
    assert found.check == "summary-cross"
    assert "order of reading is +1.00" in found.sentence()


def test_a_text_of_three_words_has_its_portrait_too():
    trace = Trace.from_weights(torch.eye(3)[None], list("abc"))
    (found,) = diagnose(trace, checks=PORTRAITS)
    assert found.value == pytest.approx(1)
