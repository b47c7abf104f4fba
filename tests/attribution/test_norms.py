"""Norms against the vectors that the paper writes, one by one."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import regard
from attribution.networks import HEADS, LENGTH, WIDTH, network, traced, used
from regard.attribution.norms import value_norms
from regard.errors import InputError
from regard.tracing import Keep
from regard.types import Trace

DIM = WIDTH // HEADS
CLOSE = {"atol": 1e-9, "rtol": 1e-7}


def given_by_each(values, w_v, b_v, w_o):
    """f(x) = (x W_V + b_V) W_O of each head and key, by the matrices as they stand in a layer."""
    found = torch.zeros(HEADS, len(values), w_o.shape[1], dtype=torch.float64)
    for head in range(HEADS):
        own = slice(head * DIM, (head + 1) * DIM)
        found[head] = (values @ w_v[:, own] + b_v[own]) @ w_o[own]
    return found.detach()


def attended():
    """torch's own layer on a text, and f(x) of each key."""
    layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double()
    nn.init.normal_(layer.in_proj_bias)
    x = torch.randn(1, LENGTH, WIDTH).double()
    with regard.watch(layer, keep=Keep(values=True, outputs=True)) as seen:
        _, weights = layer(x, x, x, average_attn_weights=False)
    w_v, b_v = layer.in_proj_weight[2 * WIDTH :].T, layer.in_proj_bias[2 * WIDTH :]
    return seen[0], weights[0], given_by_each(x[0], w_v, b_v, layer.out_proj.weight.T)


def test_it_is_the_length_of_each_weighted_vector():
    trace, weights, vectors = attended()
    found = value_norms(trace, "MultiheadAttention")
    expected = (weights[..., None] * vectors[:, None]).norm(dim=-1)
    assert found.of == "projected values"
    torch.testing.assert_close(found.weights(), expected, **CLOSE)
    torch.testing.assert_close(found.weights(2), expected[2], **CLOSE)
    torch.testing.assert_close(found.lengths, vectors.norm(dim=-1), **CLOSE)


def test_a_window_is_a_part_of_the_whole():
    found = value_norms(attended()[0], "MultiheadAttention")
    rows, columns = range(2, 5), range(1, 6)
    torch.testing.assert_close(found.window(1, rows, columns), found.weights(1)[2:5, 1:6])


def test_joined_heads_are_summed_before_they_are_measured():
    trace, weights, vectors = attended()
    found = value_norms(trace, "MultiheadAttention")
    expected = (weights[..., None] * vectors[:, None]).sum(0).norm(dim=-1)
    torch.testing.assert_close(found.summed_over_heads(), expected, **CLOSE)
    torch.testing.assert_close(found.summed_over_heads(range(3, 5)), expected[3:5], **CLOSE)


@pytest.mark.parametrize(
    ("name", "site", "matrices"),
    [
        ("bert", "encoder.layer.1.attention.self", ("self.value", "output.dense")),
        ("marian", "model.decoder.layers.1.encoder_attn", ("v_proj", "out_proj")),
        ("ours", "decoder.layers.1.cross", ("w_v", "w_o")),
    ],
)
def test_projections_of_any_model_are_its_own(name, site, matrices):
    model = network(name).model
    around = model.get_submodule(site.removesuffix(".self"))
    read, inputs = around.get_submodule(matrices[0]), []
    handle = read.register_forward_hook(lambda module, args, output: inputs.append(args[0]))
    with torch.no_grad():
        model(**network(name).inputs)
    handle.remove()
    joins = around.get_submodule(matrices[1]).weight.T
    expected = given_by_each(inputs[0][0], read.weight.T, read.bias, joins).norm(dim=-1)
    found = value_norms(traced(name), site)
    assert found.of == "projected values"
    torch.testing.assert_close(found.lengths, expected, **CLOSE)
    weights = next(each.weights for each in used(name) if each.map.site == site)
    torch.testing.assert_close(found.weights(), weights * expected[:, None], **CLOSE)


def test_heads_that_share_values_each_have_their_own_projection():
    trace, _, _ = attended()
    (each,) = trace.maps
    shared = replace(each, values=each.values[:1])
    found = value_norms(Trace(trace.streams, (shared,)), each.site)
    expected = (shared.values @ each.output_projection).norm(dim=-1)
    torch.testing.assert_close(found.lengths, expected, **CLOSE)


def test_without_the_projection_it_says_that_it_measures_values():
    trace, _, _ = attended()
    (each,) = trace.maps
    found = value_norms(Trace(trace.streams, (replace(each, output_projection=None),)), each.site)
    assert found.of == "values"
    torch.testing.assert_close(found.lengths, each.values.norm(dim=-1), **CLOSE)
    with pytest.raises(InputError, match="output projection, which was not captured"):
        found.summed_over_heads()


def test_without_values_it_says_how_to_keep_them():
    trace, _, _ = attended()
    (each,) = trace.maps
    with pytest.raises(InputError, match=r"no values.*keep=Keep\(values=True, outputs=True\)"):
        value_norms(Trace(trace.streams, (replace(each, values=None),)), each.site)


def test_many_keys_are_measured_a_span_at_a_time(monkeypatch):
    trace, _, vectors = attended()
    monkeypatch.setattr("regard.types.attribution._KEYS_AT_ONCE", 3)
    found = value_norms(trace, "MultiheadAttention")
    torch.testing.assert_close(found.lengths, vectors.norm(dim=-1), **CLOSE)
    assert found.summed_over_heads().shape == (LENGTH, LENGTH)
