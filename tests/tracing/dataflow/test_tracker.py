"""Attention written by hand is found by what is done to the data, and nothing else is."""

import pytest
import torch
from torch import nn

import regard
from regard.errors import InputError
from tracing import others, recurrent, written

pytestmark = pytest.mark.usefixtures("unchecked")


def ids(length=written.LENGTH):
    return torch.randint(0, written.VOCABULARY, (written.BATCH, length))


def layer_of(kind):
    return written.Layer(kind) if kind in written.FORMS else kind()


@pytest.mark.parametrize("kind", written.FORMS + written.LAYERS, ids=lambda each: each.__name__)
def test_weights_made_by_hand_are_the_module_s_own(kind):
    model, read = written.Encoder(layer := layer_of(kind)), ids()
    alone = model(read)
    with regard.watch(model) as seen:
        assert torch.equal(model(read), alone)
    for each, own in zip(seen, layer.weights, strict=False):
        (found,) = each.maps
        assert found.site == "layer"
        torch.testing.assert_close(found.weights(), own.to(found.weights()), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", written.FORMS + written.LAYERS, ids=lambda each: each.__name__)
def test_a_layer_that_is_given_numbers_is_seen_as_in_a_model(kind):
    layer, x = layer_of(kind), torch.randn(written.BATCH, written.LENGTH, written.WIDTH)
    with regard.watch(layer) as seen:
        layer(x)
    (found,) = seen[0].maps
    own = layer.weights[0]
    torch.testing.assert_close(found.weights(), own.to(found.weights()), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", others.OTHERS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("embedded", [True, False])
def test_a_softmax_that_mixes_no_tokens_is_not_attention(kind, embedded):
    model = written.Encoder(kind()) if embedded else kind()
    x = torch.randn(others.BATCH, others.LENGTH, others.WIDTH)
    with pytest.raises(InputError, match="no attention was seen"), regard.watch(model):
        model(ids() if embedded else x)


def translators():
    for score in recurrent.SCORES:
        yield pytest.param(lambda score=score: recurrent.Translator(score()), id=score.__name__)
        after = lambda score=score: recurrent.Translator(score(), before=False)  # noqa: E731
        yield pytest.param(after, id=f"{score.__name__} after the step")
        if score is not recurrent.Location:  # over states that were stacked, as experts may be
            stepwise = lambda score=score: recurrent.Stepwise(score())  # noqa: E731
            yield pytest.param(stepwise, id=f"{score.__name__} of stacked states")


@pytest.mark.parametrize("make", [*translators()])
def test_the_steps_of_a_recurrent_decoder_are_one_cross_map(make):
    model, read, said = make(), ids(recurrent.LENGTH), ids(recurrent.STEPS)
    alone = model(read, said)
    with regard.watch(model) as seen:
        assert torch.equal(model(read, said), alone)
    for each, own in zip(seen, model.weights, strict=True):
        (found,) = each.maps
        assert (found.site, found.kind) == ("attention", "cross")
        torch.testing.assert_close(found.weights(0), own, atol=1e-6, rtol=0)


def test_a_batch_that_comes_second_is_told_by_the_recurrent_network():
    model = recurrent.BatchSecond(recurrent.Tanh())
    read, said = ids(recurrent.LENGTH).T, ids(recurrent.STEPS).T
    with regard.watch(model) as seen:
        model(read, said)
    assert len(seen) == recurrent.BATCH
    for example, each in enumerate(seen):
        torch.testing.assert_close(each.maps[0].weights(0), model.weights[example])


def test_sequences_packed_by_length_are_followed():
    model, read = recurrent.Packed(), ids(recurrent.LENGTH)
    with regard.watch(model) as seen:
        model(read, torch.tensor([7, 5]))
    torch.testing.assert_close(seen[0].maps[0].weights()[0, 0], model.weights[0])
    torch.testing.assert_close(seen[1].maps[0].weights()[0, 0], model.weights[1, :5])


class TwoStreams(nn.Module):
    """Two inputs of one length: by their sizes, one could be the other."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(written.WIDTH, written.HEADS, batch_first=True)

    def forward(self, source, target):
        return self.attention(target, source, source, need_weights=False)[0]


def test_inputs_of_one_length_are_streams_of_their_own():
    source, target = torch.randn(2, written.BATCH, written.LENGTH, written.WIDTH)
    with regard.watch(model := TwoStreams()) as seen:
        model(source, target)
    assert seen[0].maps[0].kind == "cross"
    assert set(seen[0].streams) == {"source", "target"}


class Picture(nn.Module):
    """A picture cut into patches, or read by a small network of convolutions first."""

    def __init__(self, *convolutions):
        super().__init__()
        self.patches, self.layer = nn.Sequential(*convolutions), written.Fused()

    def forward(self, pixels):
        return self.layer(self.patches(pixels).flatten(2).transpose(1, 2))


def followed(model, *inputs):
    from regard.kernels.observe import ObserveOptions
    from regard.tracing.recording.options import WatchOptions
    from regard.tracing.sites import Sites
    from regard.tracing.watcher import Watcher

    sites = Sites(model)
    with sites, Watcher(sites, WatchOptions(ObserveOptions())) as watcher:
        model(*inputs)
    return watcher.tracker


def test_the_grid_of_patches_is_that_of_the_convolution():
    model = Picture(nn.Conv2d(3, written.WIDTH, 4, stride=4))
    assert followed(model, torch.randn(2, 3, 12, 20)).grids == {"patches": (3, 5)}


def test_the_grid_of_a_network_of_convolutions_is_that_of_the_last():
    first = nn.Conv2d(3, 5, 3, stride=2, padding=1)
    model = Picture(first, nn.ReLU(), nn.Conv2d(5, written.WIDTH, 1), nn.MaxPool2d(2))
    assert followed(model, torch.randn(2, 3, 12, 20)).grids == {"patches": (3, 5)}


def test_a_convolution_between_layers_leaves_the_grid_as_it_was():
    class Reduced(Picture):
        def forward(self, pixels):
            x = super().forward(pixels).transpose(1, 2).unflatten(2, (3, 5))
            return nn.functional.conv2d(x, torch.ones(1, written.WIDTH, 3, 3))

    model = Reduced(nn.Conv2d(3, written.WIDTH, 4, stride=4))
    assert followed(model, torch.randn(2, 3, 12, 20)).grids == {"patches": (3, 5)}


def test_keys_that_were_pooled_are_a_stream_of_their_own():
    class Pooled(nn.Module):
        def forward(self, x):
            keys = nn.functional.avg_pool1d(x.mT, 2).mT
            weights = (x @ keys.mT).softmax(-1)
            return weights @ keys

    with regard.watch(model := written.Encoder(Pooled())) as seen:
        model(ids(8))
    assert seen[0].maps[0].shape == (1, 8, 4)
    assert seen[0].maps[0].kind == "cross"


class LearnedValues(nn.Module):
    """A decoder whose queries and keys carry positions of the tokens, and whose values are learned.

    `unknown` takes the values from numpy, so that nothing is known of them.
    """

    def __init__(self, *, unknown: bool) -> None:
        super().__init__()
        self.embed, self.learned = nn.Embedding(53, 32), nn.Embedding(5, 32)
        self.attend, self.unknown = nn.MultiheadAttention(32, 4, batch_first=True), unknown

    def forward(self, read):
        x, learned = self.embed(read), self.learned.weight[None].repeat(len(read), 1, 1)
        if self.unknown:
            return self.attend(learned, x, torch.from_numpy(x.detach().numpy().copy()))
        return self.attend(learned + x[:, :5], learned + x[:, :5], learned)


@pytest.mark.parametrize("unknown", [False, True])
def test_values_that_are_learned_or_unknown_are_summed_by_a_map(unknown):
    model = LearnedValues(unknown=unknown).eval()
    with regard.watch(model) as seen:
        _, averaged = model(torch.randint(0, 53, (2, 7)))
    (attention_map,) = seen[1].maps
    assert attention_map.shape == ((4, 5, 7) if unknown else (4, 5, 5))
    torch.testing.assert_close(attention_map.weights().mean(0), averaged[1])


class TalkingHeads(nn.Module):
    """Heads are mixed by 1x1 convolutions before and after the softmax (Shazeer et al. 2020)."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(13, 12)
        self.before, self.after = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

    def forward(self, ids):
        x = self.embed(ids).unflatten(-1, (3, 4)).transpose(1, 2)
        self.weights = self.after(self.before(x @ x.mT).softmax(-1))
        return self.weights @ x


@torch.no_grad()
def test_a_map_has_the_weights_after_heads_were_mixed_by_a_convolution():
    with regard.watch(model := TalkingHeads()) as seen:
        model(torch.randint(13, (2, 7)))
    for example, trace in enumerate(seen):
        (attention_map,) = trace.maps
        torch.testing.assert_close(attention_map.weights(), model.weights[example])
