"""torch's own modules, watched: what they give is what they give alone."""

import pytest
import torch
from torch import nn

import regard
from regard.kernels.observe import ObserveOptions
from regard.tracing.open_watchers import watching
from regard.tracing.recording.options import WatchOptions

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

BATCH, QUERIES, KEYS, WIDTH, HEADS = 3, 5, 7, 22, 2
CLOSE = {"atol": 1e-6, "rtol": 1e-5}  # of outputs, watched and alone


def sides(*, batch_first, batched=True):
    shape = (BATCH,) if batched else ()
    query, key = torch.randn(*shape, QUERIES, WIDTH), torch.randn(*shape, KEYS, WIDTH)
    if batched and not batch_first:
        query, key = query.transpose(0, 1), key.transpose(0, 1)
    return query, key, key


def padding(*, batched=True):
    hidden = torch.zeros(BATCH, KEYS, dtype=torch.bool)
    hidden[0, -2:] = True
    return hidden if batched else hidden[0]


def mask(kind):
    hidden = torch.ones(QUERIES, KEYS, dtype=torch.bool).triu(3)
    return hidden if kind == "bool" else torch.zeros(QUERIES, KEYS).masked_fill(hidden, -torch.inf)


def check(module, inputs, **asks):
    """Watched and alone give the same; the traces hold the weights that the module returns."""
    asked = {"need_weights": True} | asks
    with torch.no_grad():
        alone, returned = module(*inputs, **asked)
        _, each_head = module(
            *inputs, **asks | {"need_weights": True, "average_attn_weights": False}
        )
        with regard.watch(module) as seen:
            watched, came = module(*inputs, **asked)
    torch.testing.assert_close(watched, alone, **CLOSE)
    torch.testing.assert_close(came, returned, **CLOSE)
    each_head = each_head if each_head.dim() == 4 else each_head[None]
    assert len(seen) == len(each_head)
    for trace, expected in zip(seen, each_head, strict=True):
        _, _, columns = trace.maps[0].shape
        torch.testing.assert_close(trace.maps[0].weights(), expected[..., :columns], **CLOSE)
        assert not expected[..., columns:].any()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_weights_are_still_returned_to_whom_asked(need_weights, average, batch_first, batched):
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first).eval()
    inputs = sides(batch_first=batch_first, batched=batched)
    check(module, inputs, need_weights=need_weights, average_attn_weights=average)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("padded", [False, True])
def test_masks_of_both_kinds_are_obeyed(need_weights, kind, padded):
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    hidden = padding() if kind == "bool" else torch.zeros(BATCH, KEYS).masked_fill(padding(), -99e9)
    check(
        module,
        sides(batch_first=True),
        need_weights=need_weights,
        attn_mask=mask(kind),
        key_padding_mask=hidden if padded else None,
    )


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("more", ["add_bias_kv", "add_zero_attn"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_keys_that_the_module_adds_are_seen_too(need_weights, more, batch_first):
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, **{more: True}).eval()
    inputs = sides(batch_first=batch_first)
    check(module, inputs, need_weights=need_weights, key_padding_mask=padding())
    with regard.watch(module) as seen:
        module(*inputs, need_weights=need_weights)
    assert seen[0].maps[0].shape == (HEADS, QUERIES, KEYS + 1)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_batch_that_comes_second_is_told_from_the_length(length):
    module, x = nn.MultiheadAttention(WIDTH, HEADS).eval(), torch.randn(length, 6, WIDTH)
    for need_weights in (False, True):
        with regard.watch(module) as seen:
            module(x, x, x, need_weights=need_weights)
        assert len(seen) == 6
        assert seen[0].maps[0].shape == (HEADS, length, length)


@pytest.mark.parametrize("need_weights", [False, True])
def test_after_a_seed_dropout_drops_what_it_drops_alone(need_weights):
    module = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.5, batch_first=True).train()
    inputs = sides(batch_first=True)
    torch.manual_seed(7)
    alone, _ = module(*inputs, need_weights=need_weights)
    state = torch.get_rng_state()
    torch.manual_seed(7)
    with regard.watch(module):
        watched, _ = module(*inputs, need_weights=need_weights)
    torch.testing.assert_close(watched, alone, **CLOSE)
    assert torch.equal(torch.get_rng_state(), state)


def encoder(*, nested, norm=False, dropout=0.0):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 17, dropout, batch_first=True)
    last = nn.LayerNorm(WIDTH) if norm else None
    built = nn.TransformerEncoder(layer, 2, norm=last, enable_nested_tensor=nested).eval()
    if last is not None:
        nn.init.normal_(last.bias)
    return built.requires_grad_(False)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("hidden", ["bool", "float", "left", "none"])
def test_an_encoder_gives_what_its_fast_path_gives(nested, norm, hidden):
    x, real = torch.randn(BATCH, KEYS, WIDTH), torch.arange(KEYS) < torch.tensor([[4], [KEYS], [6]])
    masks = {
        "bool": ~real,
        "float": torch.zeros(BATCH, KEYS).masked_fill(~real, -torch.inf),
        "left": ~real.flip(1),
        "none": None,
    }
    model = encoder(nested=nested, norm=norm)
    alone = model(x, src_key_padding_mask=masks[hidden])
    with regard.watch(model) as seen:
        watched = model(x, src_key_padding_mask=masks[hidden])
    torch.testing.assert_close(watched, alone, **CLOSE)
    assert seen[0].maps[0].shape[2] == (KEYS if hidden == "none" else 4)


def test_the_fast_path_is_as_it_was_after_watching():
    model, x = encoder(nested=True), torch.randn(BATCH, KEYS, WIDTH)
    alone = model(x, src_key_padding_mask=padding())
    assert not alone[0, -2:].any()  # which shows that it took the path
    with regard.watch(model):
        model(x, src_key_padding_mask=padding())
    assert torch.equal(model(x, src_key_padding_mask=padding()), alone)
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_a_training_encoder_drops_what_it_drops_alone():
    model, x = encoder(nested=True, dropout=0.5).train(), torch.randn(BATCH, KEYS, WIDTH)
    torch.manual_seed(7)
    alone = model(x, src_key_padding_mask=padding())
    torch.manual_seed(7)
    with regard.watch(model):
        watched = model(x, src_key_padding_mask=padding())
    torch.testing.assert_close(watched, alone, **CLOSE)


class Failing(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = encoder(nested=True)

    def forward(self, x):
        self.encoder(x)
        raise ZeroDivisionError


def test_an_error_in_the_model_leaves_everything_as_it_was_found():
    model, shared = Failing(), nn.modules.module
    stance = torch._dynamo.eval_frame._stance
    hooks = [len(each) for name, each in vars(shared).items() if name.endswith("_hooks")]
    with pytest.raises(ZeroDivisionError), regard.watch(model):
        model(torch.randn(BATCH, KEYS, WIDTH))
    assert torch._dynamo.eval_frame._stance == stance
    assert [len(each) for name, each in vars(shared).items() if name.endswith("_hooks")] == hooks
    assert not torch.overrides._get_current_function_mode_stack()
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_a_whole_transformer_of_torch_is_seen():
    model = nn.Transformer(WIDTH, HEADS, 1, 1, 17, batch_first=True).eval()
    source, target = torch.randn(BATCH, KEYS, WIDTH), torch.randn(BATCH, QUERIES, WIDTH)
    causal = nn.Transformer.generate_square_subsequent_mask(QUERIES)
    with torch.no_grad():
        alone = model(source, target, tgt_mask=causal, tgt_is_causal=True)
        with regard.watch(model) as seen:
            watched = model(source, target, tgt_mask=causal, tgt_is_causal=True)
    torch.testing.assert_close(watched, alone, **CLOSE)
    assert [each.kind for each in seen[0]] == ["encoder", "decoder", "cross"]


def test_the_calls_of_a_block_are_there_when_it_has_ended():
    attention, x = nn.MultiheadAttention(14, 7, batch_first=True).eval(), torch.randn(2, 5, 14)
    with watching(attention, WatchOptions(ObserveOptions(atlas=0))) as watcher:
        attention(x, x, x, need_weights=False)
    (run,) = watcher.runs.runs
    assert run[0].sizes == (2, 7, 5, 5)


def test_a_model_is_left_as_it_was():
    attention, x = nn.MultiheadAttention(14, 7, batch_first=True).eval(), torch.randn(2, 5, 14)
    with watching(attention, WatchOptions(ObserveOptions(atlas=0))) as watcher:
        pass
    attention(x, x, x, need_weights=False)
    assert watcher.runs.runs == []
    assert not attention._forward_pre_hooks
