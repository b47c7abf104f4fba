import pytest
import torch

import regard
from regard.views.shown_weights import count_shown_weights, shown_weights
from traces import a_trace


def test_the_weights_are_those_of_the_head_or_the_mean_over_heads():
    trace = a_trace()
    attention_map = trace["h.1"]
    mean = shown_weights(trace, regard.view(trace, site="h.1"))["weights"]
    whole = torch.stack([attention_map.weights(head) for head in range(attention_map.heads)])
    assert mean == pytest.approx(whole.double().mean(0).numpy(), abs=1e-6)
    one = shown_weights(trace, regard.view(trace, site="h.1", head=1))
    assert one["weights"] == pytest.approx(whole[1].numpy(), abs=1e-6)
    assert (one["site"], one["head"], one["view"]) == ("h.1", 1, "heatmap")


def test_a_query_is_one_row():
    trace = a_trace()
    view = regard.view(trace, site="h.0", query=1)
    assert len(shown_weights(trace, view)["weights"]) == 1
    assert count_shown_weights(trace, view) == trace["h.0"].shape[2]
