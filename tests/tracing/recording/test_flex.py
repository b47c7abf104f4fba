"""flex_attention, seen: its rules as masks, biases and caps; weights equal a plain reference."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn.attention import flex_attention as module_of_torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import regard
from regard.tracing.mask_reading import index_rules
from regard.tracing.recording import flex
from regard.types import DenseWeights, RecomputableWeights

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tracing import strangers

pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.usefixtures("unchecked"),
]

BATCH, HEADS, KEY_HEADS, LENGTH, DIM = 2, 6, 3, 29, 11
TEXTS = torch.arange(LENGTH)[None] // torch.tensor([[7], [13]])
REAL = torch.arange(LENGTH)[None] < torch.tensor([[LENGTH], [23]])
SLOPES = 2.0 ** -torch.arange(1, HEADS + 1)
TABLE = torch.randn(HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(0))

MASKS = {
    "causal()": lambda b, h, q, k: q >= k,
    "window(4, 0)": lambda b, h, q, k: (q >= k) & (q - k < 5),
    "window(3, 3)": lambda b, h, q, k: (q - k).abs() <= 3,
    "segments(1x29, 1x29)": lambda b, h, q, k: TEXTS[b, q] == TEXTS[b, k],
    "causal() & segments(1x29, 1x29)": lambda b, h, q, k: (TEXTS[b, q] == TEXTS[b, k]) & (q >= k),
    "explicit(1x6x29x29)": lambda b, h, q, k: (q - k).abs() <= h + 1,
    "explicit(1x1x29x29)": lambda b, h, q, k: ((q * 7 + k * 5) % 3 != 0) | (q == k),
}
SCORES = {
    "none": None,
    "a slope": lambda s, b, h, q, k: s + SLOPES[h] * (k - q),
    "a table": lambda s, b, h, q, k: s + TABLE[h, q, k],
    "a cap": lambda s, b, h, q, k: 1.5 * torch.tanh(s / 1.5),
    "a cap and a table": lambda s, b, h, q, k: 30 * torch.tanh(s / 30) + TABLE[h, q, k],
    "a mask": lambda s, b, h, q, k: torch.where(q >= k, s, float("-inf")),
    "a factor": lambda s, b, h, q, k: s * (1 + h),
}


class Flexible(nn.Module):
    def __init__(self, function=flex_attention, **terms):
        super().__init__()
        self.function, self.terms = function, {"enable_gqa": True} | terms

    def forward(self, query, key, value):
        return self.function(query, key, value, **self.terms)


def sides(length=LENGTH):
    query = torch.randn(BATCH, HEADS, length, DIM)
    return query, *(torch.randn(BATCH, KEY_HEADS, length, DIM) for _ in range(2))


def block_mask(rule, length=LENGTH):
    return rule and create_block_mask(rule, BATCH, HEADS, length, length, device="cpu")


def weights(query, key, mask_rule=None, score_rule=None, scale=DIM**-0.5):
    """A plain reference."""
    scores = query @ key.repeat_interleave(HEADS // KEY_HEADS, dim=1).mT * scale
    places = torch.meshgrid(*(torch.arange(size) for size in scores.shape), indexing="ij")
    if score_rule is not None:
        scores = score_rule(scores, *places)
    if mask_rule is not None:
        scores = scores.masked_fill(~mask_rule(*places), float("-inf"))
    return scores.softmax(dim=-1)


def check(mask_rule, score_rule, length=LENGTH):
    module = Flexible(block_mask=block_mask(mask_rule, length), score_mod=score_rule)
    query, key, value = sides(length)
    expected = weights(query, key, mask_rule, score_rule)
    with regard.watch(module) as seen:
        context = module(query, key, value)
    values = value.repeat_interleave(HEADS // KEY_HEADS, dim=1)
    torch.testing.assert_close(context, expected @ values, atol=1e-5, rtol=0)
    for each, own in zip(seen, expected, strict=True):
        torch.testing.assert_close(each.maps[0].weights(), own, atol=1e-5, rtol=0)
    return seen[0].maps[0].source


@pytest.mark.parametrize("name", MASKS)
def test_a_rule_on_places_becomes_the_mask_that_it_is(name):
    assert repr(check(MASKS[name], None).scoring.mask) == name


@pytest.mark.parametrize("mask", [None, MASKS["causal()"]], ids=["all", "causal"])
@pytest.mark.parametrize("name", SCORES)
def test_a_rule_on_scores_becomes_what_it_does_to_them(name, mask):
    source = check(mask, SCORES[name])
    if name == "a factor":
        assert isinstance(source, DenseWeights)
        return
    cap = {"a cap": 1.5, "a cap and a table": 30.0}.get(name)
    assert source.scoring.softcap == cap
    biased = name in ("a slope", "a table", "a cap and a table")
    assert (source.scoring.bias is not None) == biased


def test_slopes_under_a_causal_mask_need_no_table():
    assert repr(check(MASKS["causal()"], SCORES["a slope"]).scoring.bias) == "alibi(6)"


def test_a_mask_among_the_scores_is_a_mask():
    assert repr(check(None, SCORES["a mask"]).scoring.mask) == "causal()"


@pytest.mark.parametrize("score", [None, "a slope", "a cap"])
@pytest.mark.parametrize("mask", ["causal()", "window(3, 3)"])
def test_rules_that_are_too_large_to_be_asked_whole_are_read_too(mask, score, monkeypatch):
    monkeypatch.setattr(index_rules, "MAX_PAIRS", 0)
    monkeypatch.setattr(flex, "RANDOM_PAIRS", 999)
    assert repr(check(MASKS[mask], SCORES.get(score)).scoring.mask) == mask


def test_padding_is_dropped_from_the_map():
    def real(b, h, q, k):
        return REAL[b, k]

    module, (query, key, value) = Flexible(block_mask=block_mask(real)), sides()
    with regard.watch(module) as seen:
        module(query, key, value)
    found = seen[1].maps[0].weights()
    expected = weights(query, key, real)[1, :, : found.shape[1], :23]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def call_by_name(*sides, **terms):
    return flex_attention(*sides, **terms)


def call_by_module(*sides, **terms):
    return module_of_torch.flex_attention(*sides, **terms)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("function", [flex_attention, call_by_name, call_by_module])
def test_it_is_seen_however_it_was_imported(function, compiled):
    if compiled:
        function = torch.compile(function, backend="eager")
    module, (query, key, value) = Flexible(function, scale=0.2), sides()
    with regard.watch(module) as seen:
        module(query, key, value)
    expected = weights(query, key, scale=0.2)
    torch.testing.assert_close(seen[1].maps[0].weights(), expected[1], atol=1e-5, rtol=0)


def test_the_logsumexp_is_given_to_who_asks_for_it():
    terms = {"score_mod": SCORES["a table"], "return_aux": AuxRequest(lse=True)}
    module, inputs = Flexible(block_mask=block_mask(MASKS["causal()"]), **terms), sides()
    context, auxiliary = module(*inputs)
    with regard.watch(module):
        watched, same = module(*inputs)
    torch.testing.assert_close(watched, context)
    torch.testing.assert_close(same.lse, auxiliary.lse)


@pytest.mark.parametrize("score", ["none", "a table", "a factor"])
def test_beside_the_output_is_the_same_bit_for_bit(score):
    module, inputs = Flexible(score_mod=SCORES[score]), sides()
    with torch.compiler.set_stance("force_eager"):
        alone = module(*inputs)
    with regard.watch(module, beside=True):
        watched = module(*inputs)
    if score == "a factor":  # weights without a scoring are mixed as they were seen
        torch.testing.assert_close(watched, alone)
    else:
        assert torch.equal(watched, alone)


def test_gradients_flow_to_what_a_rule_adds():
    table, inputs = TABLE.clone().requires_grad_(), sides()
    module = Flexible(score_mod=lambda s, b, h, q, k: s + table[h, q, k])
    with regard.watch(module):
        came = torch.autograd.grad(module(*inputs).square().sum(), table)
    query, key, value = inputs
    mixed = weights(query, key, score_rule=module.terms["score_mod"])
    context = mixed @ value.repeat_interleave(HEADS // KEY_HEADS, dim=1)
    expected = torch.autograd.grad(context.square().sum(), table)
    torch.testing.assert_close(came, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2"])
@torch.no_grad()
def test_a_model_of_transformers_in_flex_mode_is_seen(name):
    model, feed = strangers.model(name), strangers.inputs(name)
    with regard.watch(model) as usual:
        model(**feed)
    model.set_attn_implementation("flex_attention")
    with regard.watch(model) as seen:
        model(**feed)
    for one, other in zip(seen[1], usual[1], strict=True):
        assert isinstance(one.source, RecomputableWeights)
        torch.testing.assert_close(one.weights(), other.weights(), atol=1e-5, rtol=0)
