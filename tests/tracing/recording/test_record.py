import pytest
import torch

from regard.masks import causal
from regard.tracing.recording.record import CallRecord


def call(queries=5, keys=5, streams=("x", "x"), mask=None):
    sides = (torch.zeros(1, 3, queries, 2), torch.zeros(1, 3, keys, 2))
    return CallRecord("here", *streams, *sides, mask=mask, key_count=keys)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (call(), "encoder"),
        (call(mask=causal()), "decoder"),
        (call(queries=2), "decoder"),
        (call(streams=("x", "y")), "cross"),
    ],
)
def test_a_call_is_of_the_kind_of_its_keys(found, kind):
    assert found.kind == kind
