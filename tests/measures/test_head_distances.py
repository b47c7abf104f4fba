from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from measures.attending import (
    HEADS,
    LENGTH,
    SOURCES,
    a_decoder,
    a_text,
    a_translation,
    of_source,
    with_map,
    with_weights,
)
from regard.errors import InputError
from regard.measures import head_distances
from regard.measures.head_distances import (
    Drift,
    cell_distances,
    compares_rows,
    distances,
    drift,
    redundancy,
    row_distances,
)
from regard.types import DenseWeights, SummaryOnly, Trace

SCORES = arrays("float64", (3, 5, 7), elements=st.floats(-9, 9))


def jensen_shannon(p, q):
    """The distance by its definition, with loops."""
    total = 0.0
    for one, other in zip(p, q, strict=True):
        middle = (one + other) / 2
        for each in (one, other):
            total += 0.0 if each == 0 else each * np.log2(each / middle) / 2
    return np.sqrt(max(total, 0))


def plainly(weights):
    heads, rows, _ = weights.shape
    found = torch.zeros(heads, heads, dtype=torch.float64)
    for one in range(heads):
        for other in range(heads):
            pairs = zip(weights[one].tolist(), weights[other].tolist(), strict=True)
            found[one, other] = sum(jensen_shannon(*pair) for pair in pairs) / rows
    return found


@pytest.mark.parametrize("strip", [1, 30, 1 << 15])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", [a_text, a_decoder, a_translation])
def test_distances_of_heads_are_those_of_jensen_and_shannon(text, source, strip, monkeypatch):
    monkeypatch.setattr(head_distances, "WEIGHTS_AT_ONCE", strip)
    trace = text()
    found = distances(of_source(trace, source), "h.0")
    torch.testing.assert_close(found, plainly(trace["h.0"].weights()), atol=1e-7, rtol=0)


def test_a_sink_is_one_more_outcome():
    trace = a_decoder(sink=True)
    sink = trace["h.0"].row_statistics.on_sink[..., None]
    expected = plainly(torch.cat([trace["h.0"].weights(), sink], dim=-1))
    torch.testing.assert_close(distances(trace, "h.0"), expected, atol=1e-7, rtol=0)


@settings(deadline=None, max_examples=40)
@given(SCORES)
def test_distances_are_a_metric_from_zero_to_one(scores):
    weights = torch.from_numpy(scores).softmax(-1)
    found = distances(Trace.from_weights({"h.0": weights}, list("abcde"), list("tuvwxyz")), "h.0")
    assert (found.diagonal() == 0).all()
    assert torch.equal(found, found.T)
    assert ((found >= 0) & (found <= 1 + 1e-12)).all()
    through = found[:, :, None] + found[None]
    assert (found[:, None] <= through.transpose(1, 2) + 1e-7).all()


def test_heads_with_no_key_in_common_are_one_apart_and_copies_none():
    weights = torch.stack([torch.eye(5), torch.eye(5), torch.eye(5).roll(1, 1)])
    assert distances(with_weights(weights), "h.0")[0].tolist() == [0, 0, 1]


def test_rows_that_one_head_does_not_attend_with_are_not_compared():
    weights = torch.stack([torch.eye(5), torch.eye(5)])
    weights[1, 3:] = 0
    assert distances(with_weights(weights), "h.0").tolist() == [[0, 0], [0, 0]]
    weights[1] = 0
    assert distances(with_weights(weights), "h.0")[0, 1].isnan()


def test_small_maps_compare_rows_and_large_ones_the_cells_of_their_atlas(monkeypatch):
    trace = a_text()
    assert compares_rows(trace, "h.0")
    monkeypatch.setattr(head_distances, "MOST_WEIGHTS", HEADS * LENGTH * LENGTH - 1)
    assert not compares_rows(trace, "h.0")
    assert torch.equal(distances(trace, "h.0"), cell_distances(trace, "h.0"))
    assert compares_rows(of_source(trace, "dense"), "h.0")  # it has no atlas


def test_cells_are_compared_by_the_mass_of_their_rows():
    trace = a_decoder(sink=True)
    weights, atlas = trace["h.0"].weights(), trace["h.0"].atlas
    sink = trace["h.0"].row_statistics.on_sink
    assert (atlas.rows, atlas.columns) == (8, 8)
    mass = torch.stack([weights[..., :8].sum(-1), weights[..., 8:].sum(-1), sink], dim=-1)
    cells = torch.stack([mass[:, :8].mean(1), mass[:, 8:].mean(1)], dim=1)
    expected = plainly(cells)
    torch.testing.assert_close(cell_distances(trace, "h.0"), expected, atol=1e-7, rtol=0)


def test_a_summary_is_compared_by_its_atlas():
    trace = a_text()
    found = distances(of_source(trace, "summary"), "h.0")
    assert torch.equal(found, cell_distances(trace, "h.0"))


def test_a_summary_without_an_atlas_is_refused_with_the_way_out():
    trace = a_text()
    strip_marks = with_map(trace, replace(of_source(trace, "summary")["h.0"], atlas=None))
    with pytest.raises(InputError, match=r"'h.0' keeps neither its weights nor an atlas.*watch ag"):
        distances(strip_marks, "h.0")


def test_a_head_is_as_redundant_as_the_one_most_like_it_is_near():
    trace = a_text()
    table = row_distances(trace, "h.0")
    expected = [1 - min(table[n][m].item() for m in range(HEADS) if m != n) for n in range(HEADS)]
    assert redundancy(trace, "h.0").tolist() == pytest.approx(expected)


def test_a_copied_head_is_wholly_redundant_and_a_single_one_unknown():
    weights = torch.rand(3, 5, 5).softmax(-1)
    weights[2] = weights[0]
    found = redundancy(with_weights(weights), "h.0")
    assert found[[0, 2]].tolist() == [1, 1]
    assert redundancy(with_weights(torch.eye(5)), "h.0").isnan().all()


def layers(*maps, kinds=None):
    """A trace of several sites."""
    kinds = kinds or ["encoder"] * len(maps)
    pairs = enumerate(zip(maps, kinds, strict=True))
    made = tuple(replace(each["h.0"], site=f"h.{n}", kind=kind) for n, (each, kind) in pairs)
    return Trace(maps[0].streams, made)


@pytest.mark.parametrize("source", SOURCES)
def test_drift_is_the_distance_between_head_means(source):
    one, other = a_text(), a_text()
    trace = layers(of_source(one, source), of_source(other, "dense"))
    means = torch.stack([each["h.0"].weights().mean(0) for each in (one, other)])
    (found,) = drift(trace)
    assert (found.before, found.after) == ("h.0", "h.1")
    assert found.distance == pytest.approx(plainly(means)[0, 1].item(), abs=1e-7)


def test_drift_compares_maps_of_one_kind_and_shape_in_the_order_of_their_layers():
    trace = layers(
        *[a_text() for _ in range(4)], kinds=["encoder", "decoder", "encoder", "decoder"]
    )
    assert [(each.before, each.after) for each in drift(trace)] == [("h.0", "h.2"), ("h.1", "h.3")]
    cut = replace(trace["h.2"].part(range(5), range(LENGTH)), site="h.2")
    shorter = Trace(trace.streams, (trace["h.0"], cut))
    assert drift(shorter) == ()


def test_drift_between_different_numbers_of_heads_is_known():
    weights = torch.rand(3, 5, 5).softmax(-1)
    trace = layers(with_weights(weights), with_weights(weights.mean(0)))
    assert drift(trace)[0].distance == pytest.approx(0, abs=1e-7)


def test_drift_of_large_maps_compares_cells(monkeypatch):
    monkeypatch.setattr(head_distances, "MOST_WEIGHTS", 1)
    trace = layers(a_text(), a_text())
    (found,) = drift(trace)
    gone = [replace(each, source=SummaryOnly(each.shape)) for each in trace]
    assert drift(Trace(trace.streams, tuple(gone))) == (found,)


def test_drift_is_unknown_where_nothing_can_be_compared():
    one = of_source(a_text(), "dense")
    trace = layers(one, of_source(a_text(), "summary"))
    (found,) = drift(trace)
    assert isinstance(found, Drift)
    assert found.distance != found.distance


def test_half_precision_weights_are_compared():
    weights = torch.rand(2, 5, 5).softmax(-1).bfloat16()
    trace = with_weights(weights)
    each = replace(trace["h.0"], source=DenseWeights(weights))
    assert distances(with_map(trace, each), "h.0")[0, 1] > 0
