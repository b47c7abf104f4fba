"""Layers keep the origins of several watchers apart, on the same tensors."""

import threading

import pytest
import torch

from regard.tracing.dataflow.origin_layers import OriginLayer
from regard.tracing.dataflow.origins import origin_of, set_origin, stream_origin

OURS, THEIRS, LATER = (stream_origin(name, -2) for name in ("ours", "theirs", "later"))


@pytest.fixture
def layers():
    """Two open layers, and those that the test itself closes."""
    opened = OriginLayer(), OriginLayer()
    yield opened
    for layer in opened:
        if layer in layer._layers.open:
            layer.close()


def test_a_layer_sees_its_own_origins_only(layers):
    first, second = layers
    tensor = torch.zeros(3, 5)
    set_origin(tensor, OURS)
    with second.active([tensor]):
        assert origin_of(tensor).stream is None
        set_origin(tensor, THEIRS)
    with second.active([tensor]):
        assert origin_of(tensor) is THEIRS
    assert origin_of(tensor) is OURS
    assert (first.is_first, second.is_first) == (True, False)


def test_a_tensor_that_is_new_in_a_block_belongs_to_its_layer(layers):
    first, second = layers
    with second.active([]):
        set_origin(tensor := torch.zeros(3, 5), THEIRS)
    assert origin_of(tensor).stream is None
    first.close()
    assert origin_of(tensor) is THEIRS
    second.close()
    assert not vars(tensor)


def test_a_block_that_fails_leaves_the_origins_in_place(layers):
    first, second = layers
    set_origin(tensor := torch.zeros(3, 5), OURS)
    with pytest.raises(IndexError), second.active([tensor]):
        tensor[7]
    assert origin_of(tensor) is OURS
    second.close()
    first.close()
    assert not vars(tensor)


def test_a_layer_that_closes_leaves_the_others(layers):
    (first, second), third = layers, OriginLayer()
    set_origin(tensor := torch.zeros(3, 5), OURS)
    for layer, origin in ((second, THEIRS), (third, LATER)):
        with layer.active([tensor]):
            set_origin(tensor, origin)
    second.close()
    assert origin_of(tensor) is OURS
    first.close()
    assert origin_of(tensor) is LATER
    third.close()
    assert not vars(tensor)


def test_a_layer_may_be_closed_by_another_thread():
    layer = OriginLayer()
    set_origin(tensor := torch.zeros(3, 5), OURS)
    thread = threading.Thread(target=layer.close)
    thread.start()
    thread.join()
    assert not vars(tensor)
