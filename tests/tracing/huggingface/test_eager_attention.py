"""A model's own plain attention as one call: described where it does what its arguments say."""

import warnings

import pytest
import torch
from torch import nn

import regard
from regard.tracing.huggingface.eager_attention import describe_when_called
from regard.types import DenseWeights, RecomputableWeights

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

BATCH, HEADS, LENGTH, DIM = 2, 4, 7, 11
PLAIN = ("bert", "modernbert", "gpt2", "llama", "mistral", "gemma2", "gpt-oss", "bart", "t5")


def eager(name):
    model = strangers.model(name)
    model.set_attn_implementation("eager")
    return model


@strangers.needs_registries
@pytest.mark.parametrize("padded", [None, "left"])
@pytest.mark.parametrize("name", PLAIN)
@torch.no_grad()
def test_no_dense_weights_are_kept_of_a_model_in_eager_mode(name, padded):
    model, feed = eager(name), strangers.inputs(name, padded)
    expected = model(**feed, output_attentions=True)
    expected = getattr(expected, "attentions", None) or expected.encoder_attentions
    with regard.watch(model) as seen:
        model(**feed)
    real = strangers.real(padded)[0].bool()
    for each, weights in zip(seen[0], expected, strict=False):
        assert isinstance(each.source, RecomputableWeights)
        weights = weights[0][:, real][:, :, real]
        torch.testing.assert_close(each.weights(), weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["bert", "gemma2", "gpt-oss"])
@torch.no_grad()
def test_weights_that_the_caller_asks_for_are_those_of_the_model(name):
    model, feed = eager(name), strangers.inputs(name, "right")
    alone = model(**feed, output_attentions=True).attentions
    with regard.watch(model) as seen:
        watched = model(**feed, output_attentions=True).attentions
    for one, other in zip(watched, alone, strict=True):
        assert type(one) is torch.Tensor
        assert torch.equal(one, other)
    assert isinstance(seen[0].maps[0].source, DenseWeights)


@torch.no_grad()
def test_weights_that_a_hook_takes_are_those_of_the_model():
    model, feed = eager("llama"), strangers.inputs("llama")
    taken = []
    model.model.layers[1].self_attn.register_forward_hook(lambda *seen: taken.append(seen[2][1]))
    model(**feed)
    with regard.watch(model):
        model(**feed)
    assert isinstance(taken[1], torch.Tensor)
    torch.testing.assert_close(taken[1] + 0, taken[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", ["gemma2", "gpt-oss", "mistral"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@torch.no_grad()
def test_decoding_in_eager_mode_gives_the_same_text_and_weights(name, cache):
    model, feed = eager(name), {"input_ids": strangers.tokens()}
    feed["attention_mask"] = strangers.real("left")
    plan = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    plan["cache_implementation"] = cache
    alone = model.generate(**feed, **plan)
    with regard.watch(model) as seen:
        assert torch.equal(model.generate(**feed, **plan), alone)
    more = torch.ones(len(alone), 3, dtype=torch.long)
    real = torch.cat([feed["attention_mask"], more], dim=1)
    places = (real.cumsum(-1) - 1).clamp_min(0)
    forced = {"input_ids": alone[:, :-1], "attention_mask": real, "position_ids": places}
    expected = model(**forced, output_attentions=True).attentions
    for each, weights in zip(seen[0], expected, strict=True):
        torch.testing.assert_close(each.weights(), weights[0, :, 2:, 2:], atol=1e-5, rtol=0)


class Odd(nn.Module):
    """Attention by a function of its own, found as transformers' models find theirs."""

    def __init__(self, own):
        super().__init__()
        self.own = own

    def forward(self, query, key, mask=None, **terms):
        return describe_when_called(self.own)(self, query, key, key, mask, scaling=0.3, **terms)


def plain(module, query, key, value, mask, scaling, *, bend=lambda scores: scores, **terms):
    scores = bend(query @ key.mT * scaling)
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return (weights @ value).transpose(1, 2), weights


def bent(*args, **terms):
    return plain(*args, **terms, bend=lambda scores: scores + scores.square())


def turned(*args, **terms):
    context, weights = plain(*args, **terms)
    return context.transpose(1, 2).reshape(context.shape), weights


def sides():
    return torch.randn(BATCH, HEADS, LENGTH, DIM), torch.randn(BATCH, HEADS, LENGTH, DIM)


@pytest.mark.parametrize("own", [bent, turned])
def test_a_function_that_does_something_else_runs_itself(own):
    module, (query, key) = Odd(own), sides()
    alone, weights = module(query, key)
    with regard.watch(module) as seen:
        watched, _ = module(query, key)
    assert torch.equal(watched, alone)
    torch.testing.assert_close(seen[1].maps[0].weights(), weights[1])


def test_a_function_that_does_what_it_says_is_computed_by_the_kernel():
    module, (query, key) = Odd(plain), sides()
    alone, weights = module(query, key)
    with regard.watch(module) as seen:
        watched, _ = module(query, key)
    torch.testing.assert_close(watched, alone)
    assert isinstance(seen[0].maps[0].source, RecomputableWeights)
    torch.testing.assert_close(seen[1].maps[0].weights(), weights[1])


def test_gradients_flow_through_a_described_call():
    module, (query, key) = Odd(plain), sides()
    query.requires_grad_()
    expected = torch.autograd.grad(module(query, key)[0].square().sum(), query)
    with regard.watch(module):
        came = torch.autograd.grad(module(query, key)[0].square().sum(), query)
    torch.testing.assert_close(came, expected)


def test_without_a_watcher_the_function_runs_itself():
    query, key = sides()
    expected, _ = plain(None, query, key, key, None, 0.3)
    assert torch.equal(Odd(plain)(query, key)[0], expected)


def test_a_row_that_is_hidden_by_minus_infinity_stays_no_number():
    module, (query, key) = Odd(plain), sides()
    mask = torch.zeros(BATCH, 1, LENGTH, LENGTH)
    mask[0, :, 3] = -torch.inf
    alone, _ = module(query, key, mask)
    with regard.watch(module) as seen:
        watched, _ = module(query, key, mask)
    assert alone[0, 3].isnan().all()
    torch.testing.assert_close(watched, alone, equal_nan=True)
    assert seen[1].maps[0].shape == (HEADS, LENGTH, LENGTH)
