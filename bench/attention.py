"""`attend` against torch's fused kernel, and MultiHeadAttention against other modules."""

from collections.abc import Iterator, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.measure import (
    OURS,
    Contender,
    Effort,
    Row,
    Table,
    Target,
    compare,
    memory_row,
    peak_memory,
    time_rows,
)
from regard.attention import (
    CosineScore,
    DotScore,
    GeneralScore,
    Hard,
    Mechanism,
    MultiHeadAttention,
    ScaledDotScore,
    attend,
)
from regard.masks import causal

HEADS, WIDTH = 8, 64
TEMPERATURE = 0.1

_KERNEL, _TORCH, _X = "F.scaled_dot_product_attention", "nn.MultiheadAttention", "x-transformers"
_BY_HAND = "softmax, argmax, one-hot, product"
_SCORES = {
    "scaled_dot": ScaledDotScore,
    "dot": DotScore,
    "cosine": partial(CosineScore, TEMPERATURE),
    "general": partial(GeneralScore, WIDTH, WIDTH),
}


def queries_keys_values(length: int) -> list[Tensor]:
    """The inputs of one example: (1, head, length, width) each."""
    torch.manual_seed(0)
    return [torch.randn(1, HEADS, length, WIDTH) for _ in range(3)]


def fused(score: str, is_causal: bool, length: int) -> Mapping[str, Contender]:
    """`attend`, and torch's kernel after the same transform of query and key."""
    query, key, value = queries_keys_values(length)
    if score == "dot":
        query = query / WIDTH**0.5  # scores of a size that real models have
    mechanism = Mechanism(_SCORES[score](), mask=causal() if is_causal else None)

    def kernel() -> Tensor:
        q, k, scale = _transformed(score, mechanism, query, key)
        return F.scaled_dot_product_attention(q, k, value, is_causal=is_causal, scale=scale)

    return {OURS: lambda: attend(query, key, value, mechanism), _KERNEL: kernel}


def _transformed(
    score: str, mechanism: Mechanism, query: Tensor, key: Tensor
) -> tuple[Tensor, Tensor, float]:
    if score == "cosine":
        return F.normalize(query, dim=-1), F.normalize(key, dim=-1), 1.0 / TEMPERATURE
    if score == "general":
        return query @ mechanism.score.W, key, 1.0
    return query, key, 1.0 if score == "dot" else WIDTH**-0.5


def fused_rows(score: str, effort: Effort) -> Iterator[Row]:
    """Time and memory at each length, all keys seen and causal."""
    for length in effort.sizes(512, 1024, 2048, 4096, 8192, 16384):
        for is_causal in (False, True):
            case = partial(fused, score, is_causal, length)
            label = f"N = {length}, {'causal' if is_causal else 'all keys'}"
            timings = compare(case(), effort.repeats, seconds=effort.seconds)
            yield from time_rows(timings, label, {_KERNEL: Target(1.05)})
            warm = partial(fused, score, is_causal, 128)
            peaks = (peak_memory(case, name, warm=warm) for name in (OURS, _KERNEL))
            yield memory_row(label, _KERNEL, Target(1.05), *peaks)


def modules(bias: bool, length: int) -> Mapping[str, Contender]:
    """Self-attention modules of the same width and weights, in evaluation mode."""
    torch.manual_seed(0)
    dim = HEADS * WIDTH
    x = torch.randn(1, length, dim)
    ours = MultiHeadAttention(dim, HEADS, bias=bias).eval()
    theirs = _torch_module(ours, bias)
    contenders = {
        OURS: lambda: ours(x),
        _TORCH: lambda: theirs(x, x, x, need_weights=False)[0],
    }
    return contenders if bias else contenders | {_X: partial(_x_transformers(ours), x)}


def _torch_module(ours: MultiHeadAttention, bias: bool) -> nn.Module:
    theirs = nn.MultiheadAttention(HEADS * WIDTH, HEADS, bias=bias, batch_first=True).eval()
    joined = (ours.w_q, ours.w_k, ours.w_v)
    state = {
        "in_proj_weight": torch.cat([part.weight for part in joined]),
        "out_proj.weight": ours.w_o.weight,
    }
    if bias:
        state["in_proj_bias"] = torch.cat([part.bias for part in joined])
        state["out_proj.bias"] = ours.w_o.bias
    theirs.load_state_dict(state)
    return theirs


def _x_transformers(ours: MultiHeadAttention) -> nn.Module:
    from x_transformers.x_transformers import Attention

    theirs = Attention(dim=HEADS * WIDTH, heads=HEADS, dim_head=WIDTH, causal=False, flash=True)
    pairs = {"to_q": ours.w_q, "to_k": ours.w_k, "to_v": ours.w_v, "to_out": ours.w_o}
    theirs.load_state_dict({f"{name}.weight": part.weight for name, part in pairs.items()})
    return theirs.eval()


def module_rows(effort: Effort) -> Iterator[Row]:
    """Time at each length; every peer has a target, so that the fastest one decides."""
    for length in effort.sizes(512, 1024, 2048, 4096, 8192):
        for bias in (True, False):
            contenders = modules(bias, length)
            timings = compare(contenders, effort.repeats, seconds=effort.seconds)
            label = f"N = {length}, {'with' if bias else 'no'} bias"
            targets = {peer: Target(1.0) for peer in contenders if peer != OURS}
            yield from time_rows(timings, label, targets)


def hard(length: int) -> Mapping[str, Contender]:
    """Hard attention in evaluation mode, and a hand-written version."""
    query, key, value = queries_keys_values(length)
    mechanism = Mechanism(normalizer=Hard()).eval()

    def by_hand() -> Tensor:
        scores = query @ key.mT * WIDTH**-0.5
        index = torch.softmax(scores, dim=-1).argmax(dim=-1, keepdim=True)
        return torch.zeros_like(scores).scatter_(-1, index, 1.0) @ value

    return {OURS: lambda: attend(query, key, value, mechanism), _BY_HAND: by_hand}


def hard_rows(effort: Effort) -> Iterator[Row]:
    """Time at each length."""
    for length in effort.sizes(512, 1024, 2048, 4096):
        timings = compare(hard(length), effort.repeats, seconds=effort.seconds)
        yield from time_rows(timings, f"N = {length}", {_BY_HAND: Target(1.5, at_least=True)})


TABLES = {
    name: Table(f"attend with the score {name}", partial(fused_rows, name), 1.5) for name in _SCORES
} | {
    "modules": Table("MultiHeadAttention(512, 8), self-attention, evaluating", module_rows, 1.5),
    "hard": Table("Hard attention, evaluating", hard_rows, 0.5),
}
