"""Weights are reported where they meet values, by whatever function the two are combined."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from tracing import further_forms, written

pytestmark = pytest.mark.usefixtures("unchecked")


def watch_form(form, length=written.LENGTH):
    layer = written.Layer(form)
    model = written.Encoder(layer)
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randint(0, written.VOCABULARY, (written.BATCH, length)))
    return layer.weights, seen


@pytest.mark.parametrize("form", further_forms.FORMS, ids=lambda form: form.__name__)
def test_weights_of_rarer_functions_are_those_of_the_model(form):
    weights, seen = watch_form(form)
    assert len(seen) == written.BATCH
    for example, trace in enumerate(seen):
        assert not trace.gaps
        assert [attention_map.site for attention_map in trace.maps] == ["layer"]
        torch.testing.assert_close(trace.maps[0].weights(), weights[example])


@pytest.mark.parametrize("form", further_forms.BLOCKS, ids=lambda form: form.__name__)
def test_blocks_beside_the_tokens_are_no_heads(form):
    weights, seen = watch_form(form, 4 * further_forms.BLOCK)
    for example, trace in enumerate(seen):
        torch.testing.assert_close(trace.maps[0].weights(), weights[example])


def test_fused_attention_within_blocks_has_a_part_for_each_block():
    def form(q, k, v):
        shape = (written.BATCH, -1, 3, written.WIDTH)
        return None, F.scaled_dot_product_attention(*(s.reshape(shape) for s in (q, k, v))).flatten(
            1, 2
        )

    _, seen = watch_form(form, 12)
    assert [(each.site, each.shape) for each in seen[1].maps] == [
        (f"layer@{number}", (1, 3, 3)) for number in range(4)
    ]


def test_torch_s_own_attention_over_gathered_keys_has_a_map():
    class Gathering(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(written.WIDTH, written.HEADS, batch_first=True)

        def forward(self, x):
            places = torch.tensor([[3, 1], [2, 5]])[..., None].expand(-1, -1, written.WIDTH)
            picked = x.gather(1, places)
            context, self.weights = self.attention(x, picked, picked, average_attn_weights=False)
            return context

    model = written.Encoder(Gathering())
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randint(0, written.VOCABULARY, (written.BATCH, written.LENGTH)))
    for example, trace in enumerate(seen):
        torch.testing.assert_close(trace.maps[0].weights(), model.layer.weights[example])


def test_a_fused_function_of_torch_without_a_tap_is_a_gap():
    class Native(nn.MultiheadAttention):
        def forward(self, x):
            sizes, out = (self.embed_dim, self.num_heads), self.out_proj
            own = (self.in_proj_weight, self.in_proj_bias, out.weight, out.bias)
            return torch._native_multi_head_attention(x, x, x, *sizes, *own)[0]

    model = written.Encoder(Native(written.WIDTH, written.HEADS, batch_first=True))
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randint(0, written.VOCABULARY, (written.BATCH, written.LENGTH)))
    assert [gap.site for gap in seen[0].gaps] == ["layer"]
    assert "_native_multi_head_attention" in seen[0].gaps[0].reason
