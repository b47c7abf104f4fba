"""Tokens that are mixed without weights are a gap with its reason; other sums are none."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.errors import InputError
from tracing import mixers, written

pytestmark = pytest.mark.usefixtures("unchecked")

REASONS = {
    mixers.SUMS: "over positions",
    mixers.LOOPS: "one by one",
    mixers.BLOCKS: "running sum",
    mixers.TRANSFORMS: "Fourier transform",
    mixers.NEIGHBOURS: "neighbours of each token",
    mixers.SPARSE: "by sparse tensors",
    mixers.NUMPY: "leave torch for numpy",
}


def read():
    return torch.randint(0, written.VOCABULARY, (written.BATCH, written.LENGTH))


@pytest.mark.parametrize(
    ("form", "reason"),
    [(form, reason) for forms, reason in REASONS.items() for form in forms],
    ids=lambda each: getattr(each, "__name__", None),
)
@torch.no_grad()
def test_a_layer_that_mixes_tokens_without_weights_is_a_gap(form, reason):
    model, ids = written.Encoder(mixers.Layer(form)), read()
    alone = model(ids)
    with regard.watch(model) as seen:
        assert torch.equal(model(ids), alone)
    (gap,) = seen[0].gaps
    assert (gap.site, seen[0].maps) == ("layer", ())
    assert reason in gap.reason


@pytest.mark.parametrize("form", mixers.SUMS + mixers.LOOPS, ids=lambda form: form.__name__)
def test_a_layer_that_is_given_numbers_is_the_same_gap(form):
    layer = mixers.Layer(form)
    with regard.watch(layer) as seen:
        layer(torch.randn(written.BATCH, written.LENGTH, written.WIDTH))
    assert [gap.site for gap in seen[0].gaps] == ["Layer"]


@pytest.mark.parametrize("form", mixers.OTHERS, ids=lambda form: form.__name__)
def test_what_does_not_mix_tokens_by_their_contents_is_no_gap(form):
    model = written.Encoder(mixers.Layer(form))
    with pytest.raises(InputError, match="no attention was seen"), regard.watch(model):
        model(read())


def test_layers_that_attend_beside_a_gap_keep_their_maps():
    layers = [mixers.Layer(mixers.linear_attention), written.Layer(written.module_softmax)]
    model = written.Encoder(nn.Sequential(*layers))
    with regard.watch(model) as seen:
        model(read())
    assert [gap.site for gap in seen[0].gaps] == ["layer.0"]
    assert [each.site for each in seen[0].maps] == ["layer.1"]


class Separable(nn.Module):
    """Patches on two axes, weighted over one of them (Mehta and Rastegari 2023)."""

    def __init__(self):
        super().__init__()
        self.embed, self.project = nn.Conv2d(3, 5, 2, stride=2), nn.Conv2d(5, 11, 1)

    def forward(self, pixels):
        query, key, value = self.project(self.embed(pixels)).split([1, 5, 5], dim=1)
        self.weights = query.softmax(-1)
        return value * (key * self.weights).sum(-1, keepdim=True)


def test_weights_over_one_of_two_axes_of_patches_are_a_map():
    with regard.watch(model := Separable()) as seen:
        model(torch.randn(2, 3, 6, 14))
    for trace, own in zip(seen, model.weights, strict=True):
        torch.testing.assert_close(trace.maps[0].weights()[:, 0], own[0])


def test_numbers_that_go_to_numpy_after_the_model_are_no_gap():
    model = written.Encoder(written.Layer(written.module_softmax))
    with regard.watch(model) as seen:
        first, second = (model(read()).detach() for _ in range(2))
        assert first.numpy().shape == second.numpy().shape
    assert not seen[0].gaps


def test_a_pooled_picture_that_gates_its_channels_is_no_gap():
    class Squeeze(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.gate = nn.Conv2d(3, 5, 3), nn.Linear(5, 5)

        def forward(self, pixels):
            x = self.conv(pixels)
            gated = x * self.gate(x.mean((2, 3))).sigmoid()[:, :, None, None]
            return F.adaptive_avg_pool2d(gated, 1).flatten(1)

    with pytest.raises(InputError, match="no attention was seen"), regard.watch(Squeeze()) as _:
        Squeeze()(torch.randn(2, 3, 7, 7))
