"""Weights that are no softmax are maps too, with the numbers that the model used."""

import pytest
import torch

import regard
from tracing import unnormalised, written

pytestmark = pytest.mark.usefixtures("unchecked")


def watch_twice(model, read):
    torch.manual_seed(1)
    alone = model(read)
    torch.manual_seed(1)
    with regard.watch(model) as seen:
        assert torch.equal(model(read), alone)
    return seen


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize("form", unnormalised.FORMS, ids=lambda form: form.__name__)
@torch.no_grad()
def test_weights_that_are_no_softmax_are_the_module_s_own(form, embedded):
    layer = written.Layer(form)
    read = torch.randint(0, written.VOCABULARY, (written.BATCH, written.LENGTH))
    x = torch.randn(written.BATCH, written.LENGTH, written.WIDTH)
    model = written.Encoder(layer) if embedded else layer
    seen = watch_twice(model, read if embedded else x)
    for trace, own in zip(seen, layer.weights, strict=False):
        (attention_map,) = trace.maps
        torch.testing.assert_close(attention_map.weights(), own, atol=1e-6, rtol=0)
        assert not trace.gaps


@pytest.mark.parametrize(
    ("form", "kind"), [(unnormalised.squared, "decoder"), (unnormalised.rectified, "encoder")]
)
def test_zeros_are_a_mask_only_where_all_later_keys_have_them(form, kind):
    x = torch.randn(written.BATCH, written.LENGTH, written.WIDTH)
    with regard.watch(layer := written.Layer(form)) as seen:
        layer(x)
    assert seen[0].maps[0].kind == kind
    assert seen[0].maps[0].shape == (1, written.LENGTH, written.LENGTH)


def test_weights_of_another_stream_are_cross_attention():
    class Reader(torch.nn.Module):
        def forward(self, target, source):
            return (target @ source.mT).sigmoid() @ source

    target, source = torch.randn(2, 5, 3), torch.randn(2, 7, 3)
    with regard.watch(model := Reader()) as seen:
        model(target, source)
    assert (seen[0].maps[0].kind, seen[0].maps[0].shape) == ("cross", (1, 5, 7))
