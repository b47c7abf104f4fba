import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.attention import Mechanism
from regard.errors import InputError
from regard.tracing import Keep
from regard.types import DenseWeights, RecomputableWeights, SummaryOnly
from tracing.hands import (
    FORMS,
    HEAD,
    HEADS,
    LENGTH,
    WIDTH,
    Layer,
    an_input,
    by_fused,
    by_sum,
    own_weights,
)

every_form = pytest.mark.parametrize("form", FORMS)
EVERYTHING = Keep(values=True, gradients=True)


@pytest.mark.parametrize(
    ("weights", "source"),
    [("summary", SummaryOnly), ("windows", RecomputableWeights), ("dense", DenseWeights)],
)
def test_a_word_is_short_for_what_is_kept_of_the_weights(weights, source):
    layer, x = Layer(by_fused), an_input()
    for keep in (weights, Keep(weights)):
        with regard.watch(layer, keep=keep) as seen:
            layer(x)
        assert type(seen[0].maps[0].source) is source


def test_what_cannot_be_kept_is_refused(unchecked):
    with pytest.raises(InputError, match="keep 'summary', 'windows' or 'dense', got 'all'"):
        Keep("all")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_half_keeps_queries_and_keys_in_sixteen_bits_and_says_so(dtype):
    layer, x = Layer(by_fused).to(dtype), an_input().to(dtype)
    with regard.watch(layer, keep=Keep(half=True)) as seen:
        layer(x)
    source = seen[0].maps[0].source
    assert source.query.dtype == source.key.dtype == torch.bfloat16
    assert not source.exact


def test_weights_from_half_are_off_by_about_one_percent():
    query, key = (torch.randn(1, HEADS, 127, 64) for _ in range(2))
    with regard.watch(nn.Identity(), keep=Keep(half=True)) as seen:
        F.scaled_dot_product_attention(query * 3, key, key)
    each, expected = seen[0].maps[0], (query[0] * 3 @ key[0].mT / 8).softmax(-1)
    off = (each.weights() - expected).abs() / expected
    assert 0.001 < off.mean() < 0.01
    torch.testing.assert_close(each.statistics.largest, expected.amax(-1))


def test_half_leaves_what_has_sixteen_bits_as_it_is():
    query = torch.randn(1, HEADS, LENGTH, HEAD).half()
    with regard.watch(nn.Identity(), keep=Keep(half=True)) as seen:
        F.scaled_dot_product_attention(query, query, query)
    source = seen[0].maps[0].source
    assert source.query.dtype == torch.float16
    assert source.exact


@every_form
def test_values_are_kept_when_asked_for(form):
    layer, x = Layer(form), an_input()
    with regard.watch(layer, keep=Keep(values=True)) as seen:
        layer(x)
    for example, trace in enumerate(seen):
        torch.testing.assert_close(trace.maps[0].values, layer.sides(x)[2][example])
        assert trace.maps[0].gradient is None


@every_form
@pytest.mark.parametrize("beside", [False, True])
def test_the_gradient_by_the_weights_is_that_of_the_context_times_the_values(form, beside):
    layer, x, goal = Layer(form), an_input(), an_input()
    with regard.watch(layer, keep=EVERYTHING, beside=beside) as seen:
        (layer(x) * goal).sum().backward()
    weights = own_weights(layer, x).detach().requires_grad_()
    mixed = (weights @ layer.sides(x)[2]).transpose(1, 2).flatten(2)
    (expected,) = torch.autograd.grad((layer.out(mixed) * goal).sum(), weights)
    for example, trace in enumerate(seen):
        each = trace.maps[0]
        torch.testing.assert_close(each.gradient @ each.values.mT, expected[example])


@every_form
def test_without_backward_there_is_no_gradient(form):
    layer, x = Layer(form), an_input()
    with regard.watch(layer, keep=EVERYTHING) as seen:
        layer(x)
    assert seen[0].maps[0].gradient is None
    with regard.watch(layer, keep=EVERYTHING) as seen, torch.no_grad():
        layer(x)
    assert seen[0].maps[0].gradient is None


def test_gradients_of_several_losses_are_summed():
    layer, x = Layer(by_fused), an_input()
    with regard.watch(layer, keep=EVERYTHING) as once:
        layer(x).sum().backward()
    with regard.watch(layer, keep=EVERYTHING) as twice:
        loss = layer(x).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    torch.testing.assert_close(twice[0].maps[0].gradient, once[0].maps[0].gradient * 2)


@pytest.mark.parametrize("need_weights", [False, True])
def test_padding_is_dropped_from_values_and_gradients(need_weights):
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x, padded = an_input(), torch.zeros(2, LENGTH, dtype=torch.bool)
    padded[0, -3:] = True
    with regard.watch(attention, keep=EVERYTHING) as seen:
        mixed, _ = attention(x, x, x, key_padding_mask=padded, need_weights=need_weights)
        mixed.sum().backward()
    shapes = [(tuple(t.maps[0].values.shape), tuple(t.maps[0].gradient.shape)) for t in seen]
    assert shapes == [((HEADS, LENGTH - 3, HEAD),) * 2, ((HEADS, LENGTH, HEAD),) * 2]


def test_rows_of_gradients_stack_while_decoding_and_values_are_kept_once():
    module, states, steps = Mechanism(), torch.randn(1, LENGTH, WIDTH), torch.randn(1, 5, WIDTH)
    steps.requires_grad_()
    with regard.watch(module, keep=EVERYTHING) as seen:
        found = [module(step, states, states) for step in steps.split(1, dim=1)]
        (torch.cat(found, 1) * steps.detach()).sum().backward()
    each = seen[0].maps[0]
    torch.testing.assert_close(each.values, states)
    torch.testing.assert_close(each.gradient, steps.detach())


class Cached(nn.Module):
    """Self-attention that takes one token after another."""

    def __init__(self, form):
        super().__init__()
        self.embed, self.layer = nn.Embedding(11, WIDTH), Layer(form)

    def forward(self, token, cache):
        q, k, v = self.layer.sides(self.embed(token))
        k, v = (
            (torch.cat(sides, 2) for sides in zip(cache, (k, v), strict=True)) if cache else (k, v)
        )
        return self.layer.form(q, k, v, None), (k, v)


@pytest.mark.parametrize("form", [FORMS[0], by_fused])
def test_values_of_a_cache_are_kept_once_each(form):
    model, cache = Cached(form), None
    with regard.watch(model, keep=Keep(values=True)) as seen:
        for token in torch.randint(11, (5, 2, 1)):
            _, cache = model(token, cache)
    each = seen[1].maps[0]
    assert each.shape == (HEADS, 5, 5)
    torch.testing.assert_close(each.values, cache[1][1])


def test_dropout_does_not_keep_the_gradient_from_landing():
    layer, x = Mechanism(dropout=0.25).train(), an_input().requires_grad_()
    with regard.watch(layer, keep=EVERYTHING) as seen:
        (layer(x, x, x) * 3).sum().backward()
    assert torch.equal(seen[0].maps[0].gradient, torch.full((1, LENGTH, WIDTH), 3.0))


def test_where_the_layout_cannot_be_told_there_are_neither_values_nor_gradients():
    layer, x = Layer(by_sum), an_input()
    with regard.watch(layer, keep=EVERYTHING) as seen:
        layer(x).sum().backward()
    each = seen[0].maps[0]
    torch.testing.assert_close(each.weights(), own_weights(layer, x)[0])
    assert each.values is None
    assert each.gradient is None
