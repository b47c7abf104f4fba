import torch
from torch import nn

from regard.kernels.observe import ObserveOptions
from regard.tracing.block import watching
from regard.tracing.recording.watch_options import WatchOptions


def test_the_calls_of_a_block_are_there_when_it_has_ended():
    attention, x = nn.MultiheadAttention(14, 7, batch_first=True).eval(), torch.randn(2, 5, 14)
    with watching(attention, WatchOptions(ObserveOptions(atlas=0))) as watcher:
        attention(x, x, x, need_weights=False)
    (run,) = watcher.calls.runs
    assert run[0].sizes == (2, 7, 5, 5)


def test_a_model_is_left_as_it_was():
    attention, x = nn.MultiheadAttention(14, 7, batch_first=True).eval(), torch.randn(2, 5, 14)
    with watching(attention, WatchOptions(ObserveOptions(atlas=0))) as watcher:
        pass
    attention(x, x, x, need_weights=False)
    assert watcher.calls.runs == []
    assert not attention._forward_pre_hooks
