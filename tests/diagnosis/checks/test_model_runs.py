from types import SimpleNamespace

import pytest
import torch

import regard
from regard.attribution.occlusion import Occlusion
from regard.diagnosis import CHECKS, diagnose
from regard.diagnosis.checks import model_runs
from regard.models import Transformer
from regard.studies.faithfulness import ErasureCurves, Faithfulness, RankAgreement
from regard.types import Trace

SIZES = {"vocab": 101, "d_model": 12, "layers": 1, "heads": 3, "d_ff": 17}
IDS = {"input_ids": torch.tensor([[5, 6, 7, 8, 9, 4, 3, 2, 1, 11, 13]])}


def told(check, model, trace=None, texts=(IDS,)):
    trace = trace or regard.capture(model, None, IDS)
    return diagnose(trace, model, texts=texts, checks=[CHECKS[check]])


class Both(torch.nn.Module):
    """A decoder by its word that looks both ways; `heeds` says whether it heeds padding."""

    def __init__(self, heeds=True):
        super().__init__()
        self.inner = Transformer(kind="encoder", **SIZES)
        self.config, self.heeds = SimpleNamespace(is_decoder=True), heeds

    def forward(self, input_ids, attention_mask=None):
        return self.inner(input_ids, attention_mask=attention_mask if self.heeds else None)


def test_a_decoder_whose_outputs_depend_on_later_tokens_is_a_bug():
    (found,) = told("leak-behaviour", Both().eval())
    assert (found.severity, found.value > 0.1) == ("bug", True)
    assert "config.is_decoder" in found.sentence()


def test_a_causal_model_has_no_leak():
    assert told("leak-behaviour", Transformer(kind="decoder", **SIZES).eval()) == []


def test_a_model_that_is_not_declared_causal_may_look_both_ways():
    assert told("leak-behaviour", Transformer(kind="encoder", **SIZES).eval()) == []


def test_a_model_that_ignores_the_mask_is_a_bug():
    (found,) = told("padding-behaviour", Both(heeds=False).eval())
    assert (found.severity, found.numbers["change"]) == ("bug", 7)
    assert told("padding-behaviour", Both().eval()) == []


def judged(scores, effect, share_beaten=0.75, tau=0.1):
    """What erasing words has shown, as the study gives it."""
    texts, units = ("▁a", "▁b", "▁c", "▁d", "▁e"), tuple((place,) for place in range(5))
    without = 0.5 - torch.tensor(effect, dtype=torch.double)
    found = Occlusion("next token", "attention", 0.5, texts, units, without)

    def curve(area):
        steps = torch.zeros(1, dtype=torch.double)
        return ErasureCurves(
            torch.tensor(scores, dtype=torch.double), (1,), steps, steps, area, 0.0, 0.0
        )

    random = tuple(curve(float(number)) for number in range(8))
    agreement = {"attention": RankAgreement(tau, tau)}
    return Faithfulness(found, {"attention": curve(8 * share_beaten - 0.5)}, random, agreement)


@pytest.fixture
def erased(monkeypatch):
    def set_to(*found):
        answers = iter(found)
        monkeypatch.setattr(model_runs, "attention_faithfulness", lambda *_: next(answers))

    return set_to


TRACE = Trace.from_weights(torch.eye(5)[None], list("abcde"))


def test_attention_that_does_no_better_than_chance_is_told(erased):
    erased(
        judged([0.2] * 5, [0.1] * 5, share_beaten=0.25),
        judged([0.2] * 5, [0.1] * 5, share_beaten=0.375),
    )
    (found,) = told("unexplained", object(), [TRACE, TRACE], ("a", "b"))
    assert (found.value, found.example, found.numbers["agreement"]) == (0.3125, 0, 0.1)


def test_attention_that_does_better_than_chance_is_not_told(erased):
    erased(judged([0.2] * 5, [0.1] * 5, share_beaten=1.0))
    assert told("unexplained", object(), TRACE, ("a",)) == []


def test_words_with_much_weight_and_no_effect_are_named(erased):
    erased(judged([0.6, 0.1, 0.1, 0.1, 0.1], [0.001, 0.2, 0.2, 0.2, 0.2]))
    (found,) = told("irrelevant", object(), TRACE, ("a",))
    assert '"a" held 60% of the weight' in found.sentence()
    assert found.value == pytest.approx(3)


def test_words_whose_loss_helps_the_output_are_not_irrelevant(erased):
    erased(judged([0.6, 0.1, 0.1, 0.1, 0.1], [-0.2, 0.2, 0.2, 0.2, 0.2]))
    assert told("irrelevant", object(), TRACE, ("a",)) == []


def test_attention_is_judged_beside_shuffles():
    model = Transformer(kind="decoder", **SIZES).eval()
    found = model_runs.attention_faithfulness(model, None, IDS)
    assert {*found.curves} == {"attention", "occlusion"}
    assert len(found.random) == model_runs.SHUFFLES
