import importlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from attention.cases import Case
from regard.attention import Hard, Mechanism, catalog
from regard.errors import InputError
from regard.kernels.observe.taps import Tapped, register_tap

pytestmark = pytest.mark.usefixtures("unchecked")

BATCH, LENGTH, DIM, HEADS = 2, 7, 12, 3


class ByHand(nn.Module):
    """Softmax over scores, as people write it."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        self.q, self.k, self.v = (nn.Linear(DIM, DIM) for _ in range(3))

    def forward(self, x):
        return self.form(self.q(x), self.k(x), self.v(x))


def matmul(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / DIM**0.5, dim=-1) @ v


def einsum(q, k, v):
    weights = F.softmax(torch.einsum("bid,bjd->bij", q, k), dim=-1)
    return torch.einsum("bij,bjd->bid", weights, v)


def masked(q, k, v):
    hidden = torch.ones(q.shape[1], k.shape[1]).triu(1).bool()
    scores = torch.bmm(q, k.mT).masked_fill(hidden, float("-inf"))
    return F.dropout(scores.softmax(-1), 0.5, training=False).bmm(v)


@pytest.mark.parametrize("form", [matmul, einsum, masked])
def test_attention_written_by_hand_is_recognised(form):
    module, x = ByHand(form), torch.randn(BATCH, LENGTH, DIM)
    alone = module(x)
    with regard.watch(module) as seen:
        watched = module(x)
    assert torch.equal(watched, alone)
    weights = torch.stack([each.maps[0].weights(0) for each in seen])
    torch.testing.assert_close(weights @ module.v(x), alone)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(DIM, HEADS, batch_first=True)
        self.head = nn.Linear(DIM, 5)

    def forward(self, x):
        mixed, _ = self.attention(x, x, x, need_weights=False)
        return self.head(mixed.mean(1)).softmax(-1)


def test_the_softmax_of_a_classifier_is_not_attention():
    with regard.watch(model := Classifier().eval()) as seen:
        model(torch.randn(BATCH, LENGTH, DIM))
    assert [each.site for each in seen[0]] == ["attention"]


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_the_module_of_torch_is_seen_whether_weights_are_asked_or_not(need_weights, training):
    attention = nn.MultiheadAttention(DIM, HEADS, batch_first=True).train(training)
    x = torch.randn(BATCH, LENGTH, DIM)
    padded = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    padded[0, -2:] = True
    ask = {"key_padding_mask": padded, "average_attn_weights": False}
    context, weights = attention(x, x, x, **ask)
    with regard.watch(attention) as seen:
        watched, returned = attention(x, x, x, need_weights=need_weights, **ask)
    torch.testing.assert_close(watched, context)
    assert (returned is not None) == need_weights
    torch.testing.assert_close(seen[0].maps[0].weights(), weights[0, :, :-2, :-2])
    torch.testing.assert_close(seen[1].maps[0].weights(), weights[1])


@torch.no_grad()
def test_the_fast_path_of_torch_s_encoder_is_left_while_watching():
    layer = nn.TransformerEncoderLayer(DIM, HEADS, 17, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(BATCH, LENGTH, DIM)
    alone = encoder(x)
    with regard.watch(encoder) as seen:
        torch.testing.assert_close(encoder(x), alone)
    assert [each.site for each in seen[0]] == ["layers.0.self_attn", "layers.1.self_attn"]


class Masked(nn.Module):
    def forward(self, x, mask):
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_mask_that_changes_in_place_is_read_again(mode):
    module = Masked()
    with mode():
        x = torch.randn(BATCH, HEADS, LENGTH, DIM)
        mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool)
        for hidden, batch in ((3, BATCH), (5, 1)):
            mask[..., hidden:] = False
            mask[..., :hidden] = True
            with regard.watch(module) as seen:
                watched = module(x[:batch], mask)
            torch.testing.assert_close(watched, module(x[:batch], mask))
            assert seen[0].maps[0].shape[2] == hidden


@pytest.mark.parametrize("lead", [(), (BATCH,), (BATCH, HEADS)], ids=str)
def test_inputs_without_heads_or_batch_are_seen_too(lead):
    x, mask = torch.randn(*lead, LENGTH, DIM), torch.rand(*lead, LENGTH, LENGTH) > 0.3
    mask[..., 0] = True
    module = Masked()
    with regard.watch(module) as seen:
        watched = module(x, mask)
    torch.testing.assert_close(watched, module(x, mask))
    assert len(seen) == (BATCH if lead else 1)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_dense_causal_mask_over_a_cache_ends_at_the_last_key(mode):
    with mode():
        query, key = torch.randn(1, 1, 3, DIM), torch.randn(1, 1, LENGTH, DIM)
        mask = torch.ones(3, LENGTH, dtype=torch.bool).tril(LENGTH - 3)
        expected = F.scaled_dot_product_attention(query, key, key, attn_mask=mask)
        with regard.watch(nn.Identity()):
            watched = F.scaled_dot_product_attention(query, key, key, attn_mask=mask)
        torch.testing.assert_close(watched, expected)


@pytest.mark.parametrize("name", list(catalog))
def test_every_mechanism_of_ours_is_seen(name):
    case = Case(name)
    inputs = case.inputs()
    with regard.watch(case.module) as seen:
        watched = case.context(inputs)
    torch.testing.assert_close(watched, case.context(inputs))
    expected = case.weights(inputs)
    expected = expected if expected.dim() == 4 else expected[:, None]
    for example, each in enumerate(seen):
        # the last one gives the context; co-attention has another in the other direction before
        torch.testing.assert_close(each.maps[-1].weights(), expected[example])


def test_hard_attention_records_the_choice_really_made():
    module = Mechanism(normalizer=Hard()).train()
    query, key = torch.randn(1, 101, DIM), torch.randn(1, LENGTH, DIM)
    with regard.watch(module) as seen:
        context = module(query, key, key)
    assert torch.equal(seen[0].maps[0].weights(0) @ key[0], context[0])


def test_queries_stack_where_a_loop_looks_at_the_same_keys_again():
    module = Mechanism()
    states, steps = torch.randn(1, LENGTH, DIM), torch.randn(1, 5, DIM)
    with regard.watch(module) as seen:
        for step in steps.split(1, dim=1):
            module(step, states, states)
    assert seen[0].maps[0].shape == (1, 5, LENGTH)
    torch.testing.assert_close(seen[0].maps[0].weights(0), regard.weights(steps[0], states[0]))


def test_gradients_flow_through_a_watched_model():
    module, x = Classifier().eval(), torch.randn(BATCH, LENGTH, DIM)
    expected = torch.autograd.grad(module(x)[:, 0].sum(), [*module.parameters()])
    with regard.watch(module):
        came = torch.autograd.grad(module(x)[:, 0].sum(), [*module.parameters()])
    torch.testing.assert_close(came, expected)


def test_an_error_inside_leaves_the_model_as_it_was():
    module, hooks = Classifier(), nn.modules.module._global_forward_hooks
    before = (module.training, len(hooks), torch.get_rng_state())
    with pytest.raises(AssertionError), regard.watch(module):
        module(torch.randn(BATCH, LENGTH, DIM + 1))
    assert (module.training, len(hooks)) == before[:2]
    assert not torch.overrides._get_current_function_mode_stack()
    assert not module._forward_pre_hooks


def test_the_stream_of_random_numbers_is_left_alone():
    module, x = Classifier().eval(), torch.randn(BATCH, LENGTH, DIM)
    before = torch.get_rng_state()
    with regard.watch(module):
        module(x)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("keep", ["summary", "windows", "dense"])
def test_what_is_kept_is_what_was_asked_for(keep):
    module, x = Classifier().eval(), torch.randn(BATCH, LENGTH, DIM)
    with regard.watch(module, keep=keep, top=3) as seen:
        module(x)
    each = seen[0].maps[0]
    assert each.top.keys.shape == (HEADS, LENGTH, 3)
    assert each.statistics.entropy.shape == (HEADS, LENGTH)
    if keep == "summary":
        with pytest.raises(InputError, match="keeps only statistics and an atlas"):
            each.weights()
    else:
        torch.testing.assert_close(each.weights().sum(-1), torch.ones(HEADS, LENGTH))


def odd_attention(query, key, value):
    if torch.overrides.has_torch_function((query, key, value)):
        return torch.overrides.handle_torch_function(odd_attention, (query,), query, key, value)
    return (query @ key.mT).sigmoid() @ value


def test_a_function_of_one_s_own_can_be_registered():
    def describe(query, key, value):
        four = (side[:, None] for side in (query, key, value))
        weights = (query @ key.mT).sigmoid()[:, None]
        return Tapped(*four, lambda context: context[:, 0], weights=weights)

    register_tap(odd_attention, describe)
    x = torch.randn(BATCH, LENGTH, DIM)
    with regard.watch(nn.Identity()) as seen:
        context = odd_attention(x, x, x)
    torch.testing.assert_close(context, odd_attention(x, x, x))
    torch.testing.assert_close(seen[1].maps[0].weights(0), (x[1] @ x[1].T).sigmoid())


def test_bad_input_gets_its_sentence():
    with pytest.raises(InputError, match="keep 'summary', 'windows' or 'dense', got 'all'"):
        regard.watch(nn.Identity(), keep="all").__enter__()
    with pytest.raises(InputError, match="register_tap expected a function and its describer"):
        register_tap("sdpa", None)
    with (
        pytest.raises(InputError, match="no attention was seen: looked for scaled_dot"),
        regard.watch(nn.Identity()),
    ):
        pass


def test_what_was_seen_is_ready_when_the_block_has_ended():
    module = Classifier().eval()
    with regard.watch(module) as seen:
        module(torch.randn(BATCH, LENGTH, DIM))
        assert "not ready" in repr(seen)
        with pytest.raises(InputError, match="ready when the block of `watch` has ended"):
            len(seen)
    assert len(seen) == BATCH
    assert "encoder map 'attention'" in repr(seen)


def test_traces_are_put_together_when_they_are_first_read(monkeypatch):
    module = importlib.import_module("regard.tracing.assembly.traces")
    stacked, stack = [], module.stack_run

    def count(*arguments):
        stacked.append(1)
        return stack(*arguments)

    monkeypatch.setattr(module, "stack_run", count)
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(3, 5, 8)
    with regard.watch(attention) as traces:
        attention(x, x, x, need_weights=False)
    assert not stacked
    assert len(traces) == 3
    assert traces[2].maps[0].shape == traces[:2][0].maps[0].shape == (2, 5, 5)
    assert len(stacked) == 1
