from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from diagnosis.faults import (
    CROSS,
    DECODER,
    ENCODER,
    SEEN,
    at,
    diagnosed,
    in_head,
    the_one,
    traced,
    translator,
)
from regard.diagnosis import CHECKS, diagnose
from regard.kernels.observe.full_weights import weigh
from regard.masks import everything
from regard.models import Recurrent
from regard.types import Tokens, Trace


def told(check, trace, **known):
    return diagnose(trace, checks=[CHECKS[check]], **known)


def spoilt(weights, call):
    weights[:, 2, -1] = torch.nan
    return weights


def test_rows_that_are_not_numbers_are_a_bug():
    findings = diagnosed(at("decoder.layers.1.cross", spoilt))
    found = next(each for each in findings if each.check == "numeric")
    assert (found.site, found.head, found.severity) == ("decoder.layers.1.cross", 2, "bug")


def leaking(wrong=None):
    """A trace of a causal model with two heads that look ahead, and perhaps one spoilt row."""
    weights = torch.full((2, 9, 9), 1 / 9)
    if wrong is not None:
        weights[1, 4] = wrong
    return Trace.from_weights(weights, list("abcdefghi"))


def test_rows_that_are_not_numbers_are_named_first():
    findings = diagnose(leaking(torch.nan), expect="causal")
    assert (findings[0].check, findings[0].head, findings[0].view.rows) == ("numeric", 1, (4,))
    assert findings[0].sentence("en").endswith('(limit 0.0%). Rows: 4 "e".')
    assert findings[0].sentence("zh").endswith('行：4 "e"。')


def test_many_rows_are_named_by_the_first_of_them():
    trace = Trace.from_weights(torch.full((1, 9, 9), torch.nan), list("abcdefghi"))
    (found,) = diagnose(trace)
    assert found.sentence().endswith('Rows: 0 "a", 1 "b", 2 "c", 3 "d", 4 "e" ….')


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_rows_that_are_not_numbers_neither_silence_nor_mislead_other_checks(wrong):
    sound, spoilt = (
        {(each.check, each.head): each.value for each in diagnose(leaking(row), expect="causal")}
        for row in (None, wrong)
    )
    assert spoilt.pop(("numeric", 1)) == pytest.approx(1 / 9)
    assert spoilt == pytest.approx(sound, abs=0.05)


def test_words_of_a_translation_are_judged_by_rows_that_are_numbers():
    spoil = at(CROSS, in_head(1, lambda w, call: w.index_fill(2, torch.tensor([1]), torch.nan)))
    sound, spoilt = (diagnosed(edit) for edit in (None, spoil))
    names = [[each.check for each in found if each.check == "dropped"] for found in (sound, spoilt)]
    assert names[0] == names[1]


def test_rows_that_sum_to_more_than_one_are_a_bug():
    found = the_one(diagnosed(at(ENCODER, in_head(1, lambda w, call: w * 1.25))), "sums")
    assert (found.site, found.head) == (ENCODER, 1)
    assert found.value == pytest.approx(0.25, abs=1e-3)


def test_rows_that_sum_to_less_may_be_meant():
    trace = Trace.from_weights(torch.full((1, 7, 7), 0.1), list("abcdefg"))
    assert [each.check for each in told("sums", trace)] == ["sums"]
    assert told("sums", trace, expect="partial") == []
    local = Recurrent(vocab=11, d_embed=3, hidden=6, attention="general + local-p")
    assert told("sums", trace, model=local) == []


def test_rows_that_are_declared_to_sum_to_anything_are_no_bug():
    trace = Trace.from_weights(torch.full((1, 7, 7), 0.3), list("abcdefg"))
    model = torch.nn.Linear(2, 2)
    assert [each.check for each in told("sums", trace, model=model)] == ["sums"]
    model.row_sum = "any"
    assert told("sums", trace, model=model) == []


def unmasked(weights, call):
    return weigh(call.query, call.key, replace(call.scoring, mask=everything()))


@pytest.mark.parametrize("site", [ENCODER, CROSS[1]])
def test_a_site_that_forgets_the_padding_mask_is_a_bug(site):
    found = the_one(diagnosed(at(site, unmasked)), "padding")
    assert (found.site, found.severity) == (site, "bug")
    assert found.example != 0  # the longest text has no padding


def test_padding_that_no_site_masks_is_known_by_its_name():
    weights = torch.full((1, 7, 7), 1 / 7)
    words = ("我", "爱", "你", "们", "<pad>", "<pad>", "<pad>")
    (found,) = told("padding", Trace.from_weights(weights, list(words)), processor=PADDING)
    assert found.value == pytest.approx(3 / 7)


def test_a_decoder_may_begin_with_the_padding_token():
    trace = Trace.from_weights(torch.eye(3)[None], ["<pad>", "我", "爱"])
    assert told("padding", trace, processor=PADDING) == []


PAD = "<pad>"
PADDING = SimpleNamespace(pad_token=PAD)


class Reader:
    """A tokenizer of letters that pads on a side."""

    def __init__(self, padding_side="right"):
        self.padding_side = padding_side

    def __call__(self, text):
        return {"input_ids": list(text)}


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_without_names_is_what_the_text_is_too_short_for(side):
    trace = Trace.from_weights(torch.full((1, 7, 7), 1 / 7), list("abcdefg"))
    trace = Trace({"tokens": Tokens.positions(7)}, trace.maps)
    (found,) = told("padding", trace, processor=Reader(side), texts="abc")
    assert found.value == pytest.approx(4 / 7)
    assert told("padding", trace, processor=Reader(side), texts="abcdefg") == []
    assert told("padding", trace, processor=Reader(side), texts=[("a", "b")]) == []
    assert told("padding", trace) == []


def test_a_decoder_that_sees_later_tokens_is_a_bug():
    found = the_one(diagnosed(at(DECODER, unmasked)), "leak")
    assert (found.site, found.severity) == (DECODER, "bug")
    assert "config.is_encoder_decoder" in found.sentence()


def test_an_encoder_may_see_later_tokens():
    assert not [each for each in diagnosed() if each.check == "leak"]


def test_what_is_expected_is_judged_without_a_model():
    trace = Trace.from_weights(torch.full((1, 7, 7), 1 / 7), list("abcdefg"))
    assert told("leak", trace) == []
    (found,) = told("leak", trace, expect="causal")
    assert 'expect="causal"' in found.sentence()


def sharp(weights, call):
    return torch.nn.functional.one_hot(weights.argmax(dim=-1), weights.shape[-1]).to(weights)


def test_a_site_whose_heads_all_look_at_one_token_has_collapsed_in_entropy():
    found = the_one(diagnosed(at(CROSS[1], sharp)), "one-hot")
    assert (found.site, found.severity, found.head) == (CROSS[1], "warning", None)
    assert "set_temperature" in found.remedy_code


def test_hard_attention_may_look_at_one_token():
    traces = traced(at(CROSS[1], sharp))
    assert not diagnose(traces, translator(), checks=[CHECKS["one-hot"]], expect=["hard"])


def test_a_text_that_is_longer_than_the_model_was_made_for_is_a_warning():
    trace = Trace.from_weights(torch.eye(7)[None], list("abcdefg"))
    small = SimpleNamespace(config=SimpleNamespace(n_positions=5))
    (found,) = told("length", [trace, trace.part("tokens", 0, 7)], model=small)
    assert (found.value, found.limit, found.severity) == (7, 5, "warning")
    assert told("length", trace, model=SimpleNamespace(config=SimpleNamespace())) == []


def test_every_check_of_traces_takes_a_trace_whose_weights_are_gone():
    from traces import a_trace

    gone = Trace(a_trace().streams, (a_trace()["h.2"],))
    assert {each.severity for each in diagnose(gone, checks=SEEN)} <= {"observation", "warning"}
