from dataclasses import replace

import pytest
import torch

from regard.masks import causal, explicit, lengths, padding
from regard.tracing.assembly.stacking import StackedCall
from regard.tracing.assembly.streams import find_streams, name_streams, real_keys
from regard.tracing.recording.record import CallRecord

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, LENGTH = 3, 7


def call(queries=LENGTH, keys=LENGTH, streams=("text", "text"), **parts):
    weights = torch.rand(BATCH, 2, queries, keys)
    nothing = torch.empty(BATCH, 2, 0, 0)
    return CallRecord("h", *streams, nothing, nothing, weights=weights, key_count=keys, **parts)


def stack(one, rows=range(BATCH), reads=None):
    return StackedCall(one, rows, [one.sizes[2]] * len(rows) if reads is None else reads)


TEXT, IMAGE, LATE = ("text_model", 7), ("vision_model", 17), ("vision_model", 5)


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        ([(TEXT, TEXT)], ["tokens"]),
        ([(TEXT, TEXT), (IMAGE, IMAGE)], ["text_model", "vision_model"]),
        ([(IMAGE, IMAGE), (TEXT, TEXT), (TEXT, IMAGE)], ["source", "target"]),
        ([(IMAGE, IMAGE), (LATE, LATE)], ["vision_model (17)", "vision_model (5)"]),
        ([(IMAGE, IMAGE), (LATE, IMAGE)], ["source", "target"]),
    ],
)
def test_streams_are_named_by_what_they_do(pairs, names):
    assert list(name_streams(pairs).values()) == names


def test_a_name_is_only_what_tells_the_paths_apart():
    one, other = ("model.text.embeddings", 5), ("model.image.embeddings", 7)
    assert list(name_streams([(one, one), (other, other)]).values()) == ["text", "image"]


def test_a_path_that_is_the_beginning_of_another_keeps_a_name():
    one, other = ("model", 5), ("model.image", 7)
    assert list(name_streams([(one, one), (other, other)]).values()) == ["model", "model.image"]


REAL = torch.arange(LENGTH) >= torch.tensor([[0], [2], [3]])


@pytest.mark.parametrize(
    ("mask", "runs"),
    [
        (None, None),
        (causal(), None),
        (padding(REAL), [(0, 7), (2, 7), (3, 7)]),
        (causal() & padding(REAL), [(0, 7), (2, 7), (3, 7)]),
        (lengths([7, 5, 2]), [(0, 7), (0, 5), (0, 2)]),
        (padding(REAL[1:2]), [(2, 7)] * BATCH),
        # a token that only itself sees is real, unless the caller of the model says otherwise
        (explicit((REAL[:, :, None] & REAL[:, None]) | torch.eye(LENGTH).bool()), None),
        # the last tokens see earlier ones, so they attend
        (causal() & padding(REAL.flip(1)), [(0, 7), (0, 7), (0, 7)]),
    ],
    ids=str,
)
def test_padding_is_what_the_mask_hides_at_the_ends(mask, runs):
    found = real_keys(call(mask=mask))
    assert found == (None if runs is None else tuple(range(*run) for run in runs))


def test_what_the_caller_says_of_padding_comes_before_the_mask():
    record = replace(call(mask=causal()), real_tokens=REAL.flip(1))
    assert real_keys(record) == (range(7), range(5), range(4))


def test_real_tokens_are_those_of_the_trace_s_row():
    found = find_streams([stack(call(mask=padding(REAL)), rows=[2, 2, -1, 0])])
    assert found["text", LENGTH].real == [range(3, 7), range(3, 7), None, range(7)]


def test_a_trace_that_ended_has_the_tokens_that_it_read():
    found = find_streams([stack(call(mask=causal() & padding(REAL)), reads=[7, 5, 4])])
    assert found["text", LENGTH].real == [range(7), range(2, 5), range(3, 4)]


def test_rows_after_a_cache_that_was_there_before_end_with_their_trace():
    found = find_streams([stack(call(queries=3), reads=[3, 2, 1])])
    assert found["text", LENGTH].real == [range(7), range(6), range(5)]


def test_a_stream_that_only_looks_ends_with_its_trace():
    crossing = call(queries=5, streams=("text", "image"))
    found = find_streams([stack(crossing, reads=[5, 3, 1])])
    assert found["text", 5].real == [range(5), range(3), range(1)]
    assert found["image", LENGTH].real == [range(LENGTH)] * BATCH


def test_streams_that_are_read_one_by_one_are_decoded():
    stacks = [stack(call(streams=("image", "image"))), stack(call(mask=causal()))]
    assert [each.decoded for each in find_streams(stacks).values()] == [False, True]
