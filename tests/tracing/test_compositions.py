"""Hand-written attention, composed at random: each map is what multiplied the values."""

import pytest
import torch

import regard
from tracing.compositions import BATCH, compose

SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_map_of_composed_attention_is_what_multiplied_the_values(seed):
    network, inputs = compose(seed)
    with torch.no_grad(), regard.watch(network) as seen:
        output = network(*inputs)
        expected = [layer.expected for layer in network.layers]
    assert torch.equal(output, network(*inputs))
    assert len(seen) == BATCH
    for number, trace in enumerate(seen):
        assert not trace.gaps
        for layer, weights in enumerate(expected):
            shown = trace[f"layers.{layer}"]
            torch.testing.assert_close(shown.weights(), weights[number], atol=1e-6, rtol=0)
            assert (shown.kind == "cross") == (layer == 2)
