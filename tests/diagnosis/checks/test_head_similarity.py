from dataclasses import replace

import pytest
import torch

import regard
from diagnosis.faults import CROSS, ENCODER, TEXTS, at, diagnosed, in_head, the_one
from regard.diagnosis import CHECKS, diagnose
from regard.types import Trace
from traces import a_trace


def test_a_copied_head_is_redundant_and_no_alarm():
    copied = in_head(3, lambda weights, call: weights[:, [0, 1, 2, 1]])
    found = the_one(diagnosed(at(ENCODER, copied)), "redundant")
    assert (found.site, found.head, found.numbers["other"]) == (ENCODER, 3, 1)
    assert found.value == pytest.approx(0, abs=1e-4)
    assert found.severity == "observation"


def test_a_layer_whose_heads_are_all_alike_has_collapsed():
    alike = at(CROSS[0], lambda weights, call: weights.mean(dim=1, keepdim=True).expand_as(weights))
    found = the_one(diagnosed(alike), "collapsed")
    assert (found.site, found.head, found.numbers["heads"]) == (CROSS[0], None, 4)


def test_two_heads_that_are_alike_are_no_collapsed_layer():
    weights = torch.rand(1, 11, 11).softmax(dim=-1).expand(2, 11, 11)
    checks = [CHECKS[name] for name in ("collapsed", "redundant")]
    found = diagnose(Trace.from_weights(weights, list("abcdefghijk")), checks=checks)
    assert [each.check for each in found] == ["redundant"]


def test_maps_that_keep_nothing_to_compare_say_nothing():
    (bare,) = (each for each in a_trace() if each.site == "h.2")
    trace = Trace(a_trace().streams, (replace(bare, atlas=None),))
    assert diagnose(trace, checks=[CHECKS["redundant"], CHECKS["collapsed"]]) == []


def test_heads_of_which_an_atlas_alone_was_kept_are_not_compared():
    own = regard.from_pretrained("en-zh-transformer")
    kept = [regard.capture(own, own.tokenizer, text, target=text, keep="summary", atlas=2)
            for text in TEXTS]  # fmt: skip
    assert all(each.atlas is not None for trace in kept for each in trace)
    assert diagnose(kept, checks=[CHECKS["redundant"], CHECKS["collapsed"]]) == []
