from types import SimpleNamespace

import pytest
import torch

from diagnosis.faults import traced, translator
from regard.diagnosis import Evidence, diagnose
from regard.diagnosis.evidence import Series
from regard.errors import InputError, UnknownNameError
from regard.types import Trace

TRACE = Trace.from_weights(torch.eye(5)[None], list("abcde"))


def test_a_mean_weighs_rows_and_leaves_out_what_is_not_known():
    values = torch.tensor([[1.0, torch.nan], [4.0, 3.0]], dtype=torch.double)
    series = Series(values, torch.tensor([2, 1]), (5, 7))
    assert series.mean.tolist() == [2, 3]
    assert series.known(1) == 1
    assert (series.extreme(0, "above"), series.extreme(0, "below")) == (7, 5)


def test_a_measure_is_taken_once():
    calls = []

    def measure(trace, site):
        calls.append(site)
        return torch.zeros(1)

    site = Evidence((TRACE, TRACE)).site("weights")
    site.measured(measure)
    site.series(measure, lambda found: found)
    assert len(calls) == 2


def test_maps_with_few_keys_do_not_tell_habits():
    small = Trace.from_weights(torch.eye(3)[None], list("abc"))
    series = Evidence((small, TRACE)).site("weights").numbers("evenness")
    assert series.examples == (1,)


def test_a_study_runs_once_and_what_it_cannot_take_is_left_out():
    heard = []

    def study(model, processor, text):
        heard.append(text)
        if text == "b":
            raise InputError("not this one")
        return text * 2

    evidence = Evidence((TRACE, TRACE), object(), None, ("a", "b"))
    assert evidence.studied(study) == {0: "aa"}
    assert evidence.studied(study) == {0: "aa"}
    assert heard == ["a", "b"]


def test_without_a_model_or_texts_nothing_is_studied():
    assert Evidence((TRACE,), None, None, ("a",)).studied(lambda *_: 1) == {}
    assert Evidence((TRACE,), object()).studied(lambda *_: 1) == {}


def test_only_the_decoder_of_a_translator_is_declared_causal():
    evidence = Evidence((traced(numbers=[1])[0],), translator())
    causal = {site.name for site in evidence.sites if evidence.causal_by(site)}
    assert causal == {"decoder.layers.0.attention", "decoder.layers.1.attention"}


def test_what_a_module_says_goes_before_the_config():
    model = torch.nn.ModuleDict({"weights": torch.nn.Linear(2, 2)})
    model.config = SimpleNamespace(is_decoder=True)
    model["weights"].is_causal = False
    assert Evidence((TRACE,), model).causal_by(Evidence((TRACE,)).site("weights")) is None
    model["weights"].is_causal = True
    by = Evidence((TRACE,), model).causal_by(Evidence((TRACE,)).site("weights"))
    assert by == "weights.is_causal"


@pytest.mark.parametrize(
    ("known", "error", "message"),
    [
        ({"traces": []}, InputError, "expected a trace or more, got none"),
        ({"texts": ["a", "b"]}, InputError, "a text for each of 1 traces, got 2"),
        ({"expect": "casual"}, UnknownNameError, "no expectation 'casual'; did you mean 'causal'"),
    ],
)
def test_what_cannot_be_diagnosed_is_told(unchecked, known, error, message):
    with pytest.raises(error, match=message):
        diagnose(**({"traces": TRACE} | known))
