import zlib

import numpy as np
import pytest
import torch

from regard.views.encoding import LEVELS, LogFactors, byte_levels, decode, from_levels
from regard.views.encoding import encode as encode_heads
from views import opening

ROWS, COLUMNS, DIM = 223, 227, 7


def encode(weights, scores=None):
    (blob,) = encode_heads(weights[None], None if scores is None else [scores])
    return blob


def a_call(rows=ROWS, columns=COLUMNS, dim=DIM, size=1.7):
    query, key = size * torch.randn(rows, dim), torch.randn(columns, dim)
    return query, key


def softmax(query, key, seen=None):
    logits = query @ key.T
    if seen is not None:
        logits = logits.masked_fill(~seen, -torch.inf)
    scores = LogFactors(query.numpy(), key.numpy(), -logits.logsumexp(-1).numpy())
    return logits.softmax(-1).numpy(), scores


def code_of(blob):
    return zlib.decompress(blob, wbits=-15)[:2]


def check(weights, blob):
    """Within 3% from 0.1% up, below 0.104% below, and nothing where there was nothing at all."""
    found = decode(blob)
    shown = weights >= 0.001
    assert found.shape == weights.shape
    assert np.abs(found[shown] / weights[shown] - 1).max(initial=0) < 0.03
    assert found[~shown].max(initial=0) < 0.00104
    assert found.max() <= weights.max()


def test_every_weight_has_a_level_within_three_percent():
    weights = np.geomspace(0.001, 1, 9973).astype(np.float32)
    found = from_levels(byte_levels(weights))
    assert np.abs(found / weights - 1).max() < 0.03


def test_levels_below_a_thousandth_stay_below_it_and_keep_their_order():
    weights = np.geomspace(1e-6, 0.000999, 997).astype(np.float32)
    found = from_levels(byte_levels(weights))
    assert (found < 0.001).all()
    assert (np.diff(found) >= 0).all()
    assert np.abs(found / weights - 1).max() < 0.15


def test_no_weight_is_level_zero_and_levels_rise():
    assert byte_levels(np.zeros(3, np.float32)).tolist() == [0, 0, 0]
    assert LEVELS[0] == 0
    assert (np.diff(LEVELS) > 0).all()


@pytest.mark.parametrize("size", [0.1, 1.0, 1.7])
def test_a_whole_map_is_coded_as_factors_that_nobody_told(size):
    weights, _ = softmax(*a_call(size=size))
    blob = encode(weights)
    assert code_of(blob) == b"\1\0"
    check(weights, blob)


def test_a_causal_map_is_coded_as_the_factors_of_its_scores():
    seen = torch.ones(ROWS, COLUMNS).tril(140) > 0
    weights, scores = softmax(*a_call(), seen)
    blob = encode(weights, scores)
    assert code_of(blob) == b"\1\1"
    check(weights, blob)
    assert (decode(blob)[~seen.numpy()] == 0).all()


def test_factors_are_several_times_shorter_than_levels():
    query, key = a_call(409, 419, 7)
    weights, scores = softmax(query, key)
    shuffled = weights.reshape(-1)[torch.randperm(weights.size)].reshape(weights.shape)
    assert 5 * len(encode(weights, scores)) < len(encode(shuffled))


def test_a_window_is_coded_by_the_runs_of_its_rows():
    seen = torch.ones(ROWS, COLUMNS).tril(5) * torch.ones(ROWS, COLUMNS).triu(-3) > 0
    weights, _ = softmax(*a_call(), seen)
    blob = encode(weights)
    assert code_of(blob)[1] == 2
    check(weights, blob)


def test_weights_without_structure_are_coded_cell_by_cell():
    weights = torch.rand(ROWS, COLUMNS).pow(9).numpy()
    blob = encode(weights)
    assert code_of(blob)[0] in (0, 2)
    check(weights, blob)


def test_a_smooth_map_is_coded_by_the_differences_of_its_cells():
    down, across = torch.arange(ROWS)[:, None], torch.arange(COLUMNS)
    smooth = 0.5 + 0.4 * torch.sin(down * across / 900)
    weights = smooth.tril().numpy().astype(np.float32)
    blob = encode(weights)
    assert code_of(blob) == b"\2\1"
    check(weights, blob)


def test_one_key_for_each_query_takes_few_bytes():
    weights = torch.eye(499).numpy()
    blob = encode(weights)
    assert np.array_equal(decode(blob), weights)
    assert len(blob) < 3000


def test_cells_that_factors_miss_are_corrected():
    weights, scores = softmax(*a_call())
    weights = weights.copy()
    weights[[3, 41, 222], weights.argmax(1)[[3, 41, 222]]] *= 1.3
    blob = encode(weights, scores)
    assert code_of(blob)[0] == 1
    check(weights, blob)


def test_scores_that_say_nothing_of_the_weights_are_not_used():
    weights, _ = softmax(*a_call())
    _, scores = softmax(*a_call())
    check(weights, encode(weights, scores))


@pytest.mark.parametrize("shape", [(1, 1), (1, 13), (11, 1), (2, 3), (5, 300)])
def test_maps_of_any_shape_are_coded(shape):
    weights = torch.randn(shape).softmax(-1).numpy()
    check(weights, encode(weights))


def test_a_map_with_rows_that_see_nothing_keeps_them_empty():
    seen = torch.ones(ROWS, COLUMNS) > 0
    seen[[0, 41]] = False
    query, key = a_call()
    logits = (query @ key.T).masked_fill(~seen, -torch.inf)
    weights = logits.softmax(-1).nan_to_num().numpy()
    rows = -logits.logsumexp(-1).nan_to_num(neginf=0.0).numpy()
    blob = encode(weights, LogFactors(query.numpy(), key.numpy(), rows))
    check(weights, blob)
    assert (decode(blob)[[0, 41]] == 0).all()


def test_weights_above_one_are_coded_too():
    weights = np.array([[0.5, 3.0], [40.0, 0.0]], np.float32)
    assert decode(encode(weights)) == pytest.approx(weights, rel=0.03)


@pytest.mark.parametrize("kind", ["factors", "causal", "levels", "runs", "smooth"])
def test_a_plain_reader_of_the_format_reads_the_same(kind):
    weights, scores = softmax(*a_call(31, 37, 2))
    down, across = torch.arange(31)[:, None], torch.arange(37)
    seen = {"causal": across <= down + 2, "runs": (across - down).abs() < 3}.get(kind)
    if seen is not None:
        weights, scores = softmax(*a_call(31, 37, 2), seen)
    if kind == "smooth":
        weights = (0.5 + 0.4 * torch.sin(down * across / 99)).numpy().astype(np.float32)
    blob = encode(weights, scores if kind in ("factors", "causal") else None)
    assert np.array(opening.weights(blob)) == pytest.approx(decode(blob), rel=1e-5, abs=1e-9)


def test_the_same_map_gives_the_same_bytes():
    weights, _ = softmax(*a_call())
    assert encode(weights) == encode(weights.copy())
