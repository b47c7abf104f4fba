import copy

import pytest
import torch

from regard.attention import (
    KeyValueCache,
    Mechanism,
    MultiHeadAttention,
    Rotary,
    SingleHeadAttention,
)
from regard.errors import InputError
from regard.masks import causal, lengths, window

BATCH, LENGTH, HEADS, HEAD_DIM = 2, 7, 6, 4
DIM = HEADS * HEAD_DIM


@pytest.mark.parametrize("key_heads", [6, 3, 1])
@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("mask", [causal(), window(2, 0)], ids=str)
def test_step_by_step_with_a_cache_equals_the_full_pass(key_heads, rotary, mask):
    attention = MultiHeadAttention(
        DIM,
        HEADS,
        key_heads=key_heads,
        mechanism=Mechanism(mask=mask),
        rotary=Rotary(HEAD_DIM) if rotary else None,
    )
    x = torch.randn(BATCH, LENGTH, DIM)
    whole, past = attention(x), None
    for start, stop in ((0, 3), (3, 4), (4, 7)):
        context, past = attention.step(x[:, start:stop], past)
        torch.testing.assert_close(context, whole[:, start:stop], atol=1e-5, rtol=1e-5)
    assert past.length == LENGTH


def test_a_cache_is_a_value_that_stays_as_it_was():
    cache = KeyValueCache(torch.zeros(1, 2, 3, 5), torch.zeros(1, 2, 3, 5))
    longer = cache.extended(KeyValueCache(torch.ones(1, 2, 2, 5), torch.ones(1, 2, 2, 5)))
    assert (cache.length, longer.length) == (3, 5)


def test_grouped_heads_equal_repeated_heads():
    grouped = MultiHeadAttention(DIM, HEADS, key_heads=2)
    repeated = MultiHeadAttention(DIM, HEADS)
    state = grouped.state_dict()
    for name in ("w_k", "w_v"):
        for part in ("weight", "bias"):
            each = state[f"{name}.{part}"].unflatten(0, (2, HEAD_DIM))
            state[f"{name}.{part}"] = each.repeat_interleave(3, dim=0).flatten(0, 1)
    repeated.load_state_dict(state)
    x = torch.randn(BATCH, LENGTH, DIM)
    torch.testing.assert_close(grouped(x), repeated(x))


def test_it_equals_the_module_of_torch():
    ours = MultiHeadAttention(DIM, HEADS)
    theirs = torch.nn.MultiheadAttention(DIM, HEADS, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.w_q.weight, ours.w_k.weight, ours.w_v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.w_q.bias, ours.w_k.bias, ours.w_v.bias]))
        theirs.out_proj.load_state_dict(ours.w_o.state_dict())
    query, key = torch.randn(BATCH, 5, DIM), torch.randn(BATCH, LENGTH, DIM)
    padded = torch.arange(LENGTH) >= torch.tensor([4, 7])[:, None]
    context, weights = theirs(query, key, key, key_padding_mask=padded, average_attn_weights=False)
    mask = lengths([4, 7])
    torch.testing.assert_close(ours(query, key, mask=mask), context)
    torch.testing.assert_close(ours.weights(query, key, mask), weights)


def test_one_example_may_come_without_a_batch():
    attention = MultiHeadAttention(DIM, HEADS)
    x = torch.randn(LENGTH, DIM)
    torch.testing.assert_close(attention(x), attention(x[None])[0])
    torch.testing.assert_close(attention.weights(x), attention.weights(x[None])[0])


def test_two_sequences_may_differ_in_width():
    single = SingleHeadAttention(3, 5, 7)
    query, key = torch.randn(BATCH, 2, 3), torch.randn(BATCH, 11, 5)
    assert single(query, key).shape == (BATCH, 2, 7)
    assert single.weights(query, key).shape == (BATCH, 2, 11)
    assert MultiHeadAttention(DIM, HEADS, key_dim=5)(torch.randn(BATCH, 2, DIM), key).shape == (
        BATCH,
        2,
        DIM,
    )


def test_keys_projected_once_serve_many_queries():
    attention = MultiHeadAttention(DIM, HEADS, key_dim=5)
    query, key = torch.randn(BATCH, 3, DIM), torch.randn(BATCH, LENGTH, 5)
    memory = attention.project(key)
    torch.testing.assert_close(attention.read(query, memory), attention(query, key))


@pytest.mark.parametrize(
    ("dim", "heads", "key_heads", "message"),
    [
        (8, 0, None, "expected at least one head, got heads=0"),
        (8, 2, 0, "expected at least one head, got heads=2, key_heads=0"),
        (7, 2, None, "dim should be a multiple of heads, got dim=7, heads=2"),
        (12, 6, 4, "heads should be a multiple of key_heads, got heads=6, key_heads=4"),
    ],
)
def test_heads_that_do_not_fit_get_their_sentence(dim, heads, key_heads, message):
    with pytest.raises(InputError, match=message):
        MultiHeadAttention(dim, heads, key_heads=key_heads)


def test_it_prints_its_heads():
    assert "heads=6, key_heads=2" in repr(MultiHeadAttention(DIM, HEADS, key_heads=2))


@pytest.mark.parametrize("key_heads", [6, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_projections_are_the_same_projections(key_heads, bias):
    attention = MultiHeadAttention(
        DIM, HEADS, key_heads=key_heads, bias=bias, rotary=Rotary(HEAD_DIM)
    )
    x = torch.randn(BATCH, LENGTH, DIM)
    before, names = attention(x), dict(attention.named_parameters())
    attention.pack()
    with torch.no_grad():
        torch.testing.assert_close(attention(x), before)
    assert all(names[name] is each for name, each in attention.named_parameters())


def test_packed_projections_follow_their_parameters():
    attention = MultiHeadAttention(DIM, HEADS)
    attention.pack()
    x = torch.randn(BATCH, LENGTH, DIM)
    with torch.no_grad():
        before = attention(x)
        attention.w_k.weight.mul_(3.0)
        assert not torch.allclose(attention(x), before, atol=1e-3)
        attention.double().float()
        torch.testing.assert_close(attention(x), attention(x, x))


def test_packing_leaves_the_parameters_to_be_trained():
    attention = MultiHeadAttention(DIM, HEADS)
    with torch.inference_mode():
        attention.pack()
        attention(torch.randn(BATCH, LENGTH, DIM))
    attention(torch.randn(BATCH, LENGTH, DIM)).sum().backward()
    with torch.no_grad():
        attention.w_q.weight -= attention.w_q.weight.grad
    assert attention.w_v.weight.grad.abs().sum() > 0


def test_a_hook_on_a_packed_projection_is_still_called():
    attention, calls = MultiHeadAttention(DIM, HEADS), []
    attention.pack()
    attention.w_v.register_forward_hook(lambda *each: calls.append(each))
    with torch.no_grad():
        attention(torch.randn(BATCH, LENGTH, DIM))
    assert len(calls) == 1


def test_a_copy_of_packed_projections_is_its_own():
    attention = MultiHeadAttention(DIM, HEADS)
    attention.pack()
    other, x = copy.deepcopy(attention), torch.randn(BATCH, LENGTH, DIM)
    with torch.no_grad():
        other.w_q.weight.zero_()
        torch.testing.assert_close(attention(x), attention(x, x))
        assert not torch.equal(other(x), attention(x))


def test_the_steps_of_attention_run_inside_the_module():
    attention, calls = MultiHeadAttention(DIM, HEADS), []
    attention.register_forward_hook(lambda *each: calls.append(each))
    _, past = attention.step(torch.randn(BATCH, 3, DIM))
    attention.read(torch.randn(BATCH, 2, DIM), past)
    assert len(calls) == 2
