import torch

from diagnosis.faults import DECODER, ENCODER, at, diagnosed, even, in_head, on_column, the_one
from regard.measures.token_kinds import PUNCTUATION, SPECIAL


def test_a_head_that_looks_at_all_alike_is_uniform():
    found = the_one(diagnosed(at(ENCODER, in_head(2, even))), "uniform")
    assert (found.site, found.head, found.severity) == (ENCODER, 2, "warning")
    assert found.value > 0.999
    assert "in all 3 texts" in found.sentence()


def by_place(weights, call):
    scores = 2 * torch.randn(64, generator=torch.Generator().manual_seed(3))
    seen = call.seen()
    return scores[: weights.shape[3]].masked_fill(~seen, -1e4).softmax(dim=-1) * seen


def test_a_head_that_looks_the_same_whatever_it_reads_is_constant():
    found = the_one(diagnosed(at(ENCODER, in_head(1, by_place))), "constant")
    assert (found.site, found.head, found.numbers["texts"]) == (ENCODER, 1, 3)


def test_one_text_alone_cannot_tell_what_is_constant():
    checks = {each.check for each in diagnosed(at(ENCODER, in_head(1, by_place)), [0])}
    assert "constant" not in checks


def before(weights, call):
    return torch.eye(weights.shape[3])[[0, *range(weights.shape[3] - 1)]].expand_as(weights)


def test_a_head_that_always_looks_at_the_token_before_has_a_role_and_is_not_dead():
    found = the_one(diagnosed(at(ENCODER, in_head(1, before))), "role-previous")
    assert (found.site, found.head) == (ENCODER, 1)


def test_a_head_without_weights_is_silent():
    found = the_one(diagnosed(at(DECODER, in_head(0, lambda w, call: w * 0))), "silent")
    assert (found.site, found.head, found.value) == (DECODER, 0, 1)


def test_a_head_that_rests_on_the_first_token_is_a_sink_and_no_alarm():
    found = the_one(diagnosed(at(DECODER, in_head(3, on_column(0)))), "sink")
    assert (found.site, found.head, found.severity) == (DECODER, 3, "observation")
    assert found.value == 1
    assert '"<s>"' in found.sentence()


def on_kind(kind, trace):
    from regard.measures.token_kinds import token_kinds

    kinds = token_kinds(trace.tokens(trace[ENCODER].columns))
    return int((kinds == kind).nonzero()[-1])


def test_weight_on_special_tokens_is_observed():
    from diagnosis.faults import traced

    column = on_kind(SPECIAL, traced(numbers=[0])[0])
    findings = diagnosed(at(ENCODER, in_head(2, on_column(column))), [0])
    found = the_one(findings, "special")
    assert (found.head, found.severity) == (2, "observation")


def test_weight_on_punctuation_is_observed():
    from diagnosis.faults import traced

    column = on_kind(PUNCTUATION, traced(numbers=[0])[0])
    findings = diagnosed(at(ENCODER, in_head(2, on_column(column))), [0])
    assert the_one(findings, "punctuation").head == 2
