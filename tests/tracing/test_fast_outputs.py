"""What is promised of outputs: bit for bit with `beside=True`, else up to rounding."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.tracing.sites import OWN_HOOKS

SIZES = {"d_model": 8, "nhead": 2, "dim_feedforward": 13, "batch_first": True}


def encoder(**settings):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES | settings), 2).eval()


class Padded(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        padding = torch.arange(x.shape[1]) >= torch.tensor([[5], [3], [4]])
        return self.inner(x, src_key_padding_mask=padding)


class SelfAttention(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)
        self.settings = settings

    def forward(self, x):
        return self.inner(x, x, x, **self.settings)[0]


MODELS = {
    "encoder": encoder,
    "gelu": lambda: encoder(activation="gelu"),
    "norm first": lambda: encoder(norm_first=True),
    "padded": lambda: Padded(encoder()),
    "layer": lambda: nn.TransformerEncoderLayer(**SIZES),
    "attention": lambda: SelfAttention(need_weights=False),
    "attention with weights": SelfAttention,
    "attention with weights of heads": lambda: SelfAttention(average_attn_weights=False),
    "whole": lambda: nn.Sequential(nn.Linear(8, 8), Padded(encoder()), SelfAttention()),
}
IGNORED = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True"),
]
pytestmark = IGNORED


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_beside_gives_the_bits_of_torchs_fast_paths(name):
    model, x = MODELS[name]().eval(), torch.randn(3, 5, 8)
    plain = model(x)
    with regard.watch(model, beside=True) as seen:
        assert torch.equal(model(x), plain)
    with regard.watch(model) as other:
        torch.testing.assert_close(model(x), plain)
    for trace, expected in zip(seen, other, strict=True):
        assert [one.site for one in trace.maps] == [one.site for one in expected.maps]
        for one, same in zip(trace.maps, expected.maps, strict=True):
            torch.testing.assert_close(one.weights(), same.weights())
    assert not OWN_HOOKS


@torch.no_grad()
def test_hooks_of_the_caller_run_once_and_get_what_they_would_get_unwatched():
    model, x, outputs = encoder(), torch.randn(3, 5, 8), []
    model.layers[1].register_forward_hook(lambda module, args, output: outputs.append(output))
    plain = model(x)
    with regard.watch(model, beside=True):
        assert torch.equal(model(x), plain)
    assert len(outputs) == 2
    assert torch.equal(outputs[0], outputs[1])


@torch.no_grad()
def test_another_mode_keeps_torch_off_its_fast_path_watched_or_not():
    model, x = encoder(), torch.randn(3, 5, 8)
    with torch.device("cpu"):
        plain = model(x)
        with regard.watch(model, beside=True):
            assert torch.equal(model(x), plain)


def test_beside_keeps_gradients_bit_for_bit():
    model, x = encoder(dropout=0.0), torch.randn(3, 5, 8, requires_grad=True)
    (plain,) = torch.autograd.grad(model(x).square().sum(), x)
    with regard.watch(model, beside=True):
        (watched,) = torch.autograd.grad(model(x).square().sum(), x)
    assert torch.equal(watched, plain)


class Fused(nn.Module):
    def forward(self, x):
        return F.scaled_dot_product_attention(x, x, x, is_causal=True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [7, 131])
@torch.no_grad()
def test_the_result_of_a_call_is_within_one_unit_of_rounding_by_default(dtype, length):
    x = torch.randn(3, 2, length, 16).to(dtype)
    plain, model = Fused()(x), Fused()
    with regard.watch(model, beside=True):
        assert torch.equal(model(x), plain)
    with regard.watch(model):
        difference = (model(x).double() - plain.double()).abs().max()
    unit = torch.finfo(dtype).eps * x.abs().max()
    assert difference <= (unit if dtype.itemsize == 2 else 4 * unit)
