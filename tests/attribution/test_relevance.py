"""Relevance against the rules of the paper, with the gradients that torch takes by the weights."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch

from attribution.networks import ALONE, BOTH, LENGTH, SOURCE, Used, network, traced, used
from regard.attribution.relevance import relevance, relevance_from
from regard.errors import InputError
from regard.types import AttentionMap, Axis, DenseWeights, Tokens, Trace

CLOSE = {"atol": 1e-9, "rtol": 1e-6}
SIZES = {"s": 5, "q": 7}


def mean(each):
    """Equation 5."""
    return (each.slope * each.weights).clamp_min(0).mean(0)


def normalised(square):
    """Equations 8 and 9."""
    rest = square - torch.eye(len(square))
    total = rest.sum(-1, keepdim=True)
    return torch.where(total == 0, 0, rest / total) + torch.eye(len(square))


def of_one_stream(layers):
    """Equation 6, from the identity on."""
    known = torch.eye(LENGTH, dtype=torch.float64)
    for each in layers:
        known = known + mean(each) @ known
    return known


def of_two_streams(layers):
    """Equations 6, 7 and 10 of an encoder and a decoder: of source to source, and target to both.

    Eq. 11 adds nothing: an encoder has no relevance of the target.
    """
    ss, tt = (torch.eye(size, dtype=torch.float64) for size in (SOURCE, LENGTH))
    ts = torch.zeros(LENGTH, SOURCE, dtype=torch.float64)
    for each in layers:
        if each.map.kind == "encoder":
            ss = ss + mean(each) @ ss
        elif each.map.kind == "decoder":
            tt, ts = tt + mean(each) @ tt, ts + mean(each) @ ts
        else:
            ts = ts + normalised(tt).T @ mean(each) @ normalised(ss)
    return ss, tt, ts


@pytest.mark.parametrize("name", ALONE)
def test_it_follows_the_rule_of_self_attention(name):
    torch.testing.assert_close(relevance(traced(name)), of_one_stream(used(name)), **CLOSE)


@pytest.mark.parametrize("name", BOTH)
def test_it_follows_the_rules_of_an_encoder_and_a_decoder(name):
    ss, tt, ts = of_two_streams(used(name))
    torch.testing.assert_close(relevance(traced(name)), ts, **CLOSE)
    torch.testing.assert_close(relevance(traced(name), keys="target"), tt, **CLOSE)
    torch.testing.assert_close(relevance(traced(name), queries="source"), ss, **CLOSE)


def test_the_weights_that_a_model_returns_give_the_same():
    model, inputs, objective = network("bert")
    model.set_attn_implementation("eager")
    output = model(**inputs, output_attentions=True)
    slopes = torch.autograd.grad(objective(output), output.attentions)
    model.set_attn_implementation("sdpa")
    known = torch.eye(LENGTH, dtype=torch.float64)
    for weights, slope in zip(output.attentions, slopes, strict=True):
        known = known + (slope * weights)[0].clamp_min(0).mean(0).detach() @ known
    torch.testing.assert_close(relevance(traced("bert")), known, **CLOSE)


def a_map(number, rows, columns):
    """Made-up weights from one of two streams to the other, or to itself."""
    axes = [Axis(name, tuple(range(SIZES[name]))) for name in (rows, columns)]
    sizes = [len(axis) for axis in axes]
    return AttentionMap(
        f"h.{number}",
        "encoder" if rows == columns else "cross",
        *axes,
        DenseWeights(torch.rand(3, *sizes).double().softmax(-1)),
        values=torch.randn(3, sizes[1], 2).double(),
        gradient=torch.randn(3, sizes[0], 2).double(),
    )


def test_streams_that_look_at_one_another_take_what_each_has_of_the_other():
    ways = ["ss", "qq", "sq", "qs", "sq", "ss", "qs"]
    maps = tuple(a_map(number, *way) for number, way in enumerate(ways))
    known = {x + y: torch.eye(SIZES[x], SIZES[y]).double() * (x == y) for x in SIZES for y in SIZES}
    for each, (s, q) in zip(maps, ways, strict=True):
        slope = each.gradient @ each.values.mT
        layer = mean(Used(each, each.weights(), slope))
        if s == q:
            for other in SIZES:
                known[s + other] = known[s + other] + layer @ known[s + other]
            continue
        added = normalised(known[s + s]).T @ layer @ normalised(known[q + q])
        known[s + q], known[s + s] = known[s + q] + added, known[s + s] + layer @ known[q + s]
    streams = {name: Tokens.positions(size) for name, size in SIZES.items()}
    for way, expected in known.items():
        found = relevance(Trace(streams, maps), queries=way[0], keys=way[1])
        torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("name", ALONE)
def test_one_row_alone_is_that_row(name):
    rows = torch.stack([relevance_from(traced(name), query) for query in range(LENGTH)])
    torch.testing.assert_close(rows, relevance(traced(name)), **CLOSE)


def test_one_row_of_an_encoder_that_a_decoder_reads_stands_by_itself():
    row = relevance_from(traced("marian"), 4, queries="source")
    torch.testing.assert_close(row, relevance(traced("marian"), queries="source")[4], **CLOSE)


def test_a_layer_without_a_row_that_matters_adds_nothing():
    first, last = traced("bert").maps
    still = replace(last, gradient=torch.zeros_like(last.gradient))
    trace = Trace(traced("bert").streams, (first.part(range(4, 6), range(LENGTH)), still))
    assert relevance_from(trace, 2).tolist() == [0, 0, 1, 0, 0, 0, 0]


def test_one_row_of_a_decoder_that_looks_across_is_refused():
    with pytest.raises(InputError, match="'target' looks at another stream, and then no row"):
        relevance_from(traced("marian"), 0)


def test_heads_can_be_chosen():
    some = [
        each._replace(weights=each.weights[[2]], slope=each.slope[[2]]) for each in used("bert")
    ]
    torch.testing.assert_close(relevance(traced("bert"), heads=[2]), of_one_stream(some), **CLOSE)


@pytest.mark.parametrize("missing", ["values", "gradient"])
def test_what_is_missing_is_named_with_the_way_to_get_it(missing):
    trace = traced("bert")
    maps = tuple(replace(each, **{missing: None}) for each in trace.maps)
    with pytest.raises(InputError, match=f"attention.self' has no {missing}; .*gradients"):
        relevance(Trace(trace.streams, maps))


def test_too_many_numbers_are_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(import_module("regard.attribution.relevance"), "MOST_NUMBERS", 48)
    with pytest.raises(InputError, match=r"hold 7 x 7 numbers; ask for one row .* relevance_from"):
        relevance(traced("bert"))


def test_streams_that_never_meet_have_no_relevance_to_one_another():
    assert not relevance(traced("marian"), queries="source", keys="target").any()
