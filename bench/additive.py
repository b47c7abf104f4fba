"""Additive scores: against the whole query x key x hidden tensor, by hand and by Keras."""

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

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
from regard.attention import AdditiveScore, Mechanism, attend

WIDTH, HIDDEN = 64, 256

_BY_HAND, _KERAS = "the whole tensor, by hand", "Keras AdditiveAttention"

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def additive(backward: bool, length: int) -> Mapping[str, Contender]:
    """One head with the same W, U and v by three ways; backward, all gradients.

    Keras has no W and U, so that its query and key are projected before it, in the same call.
    """
    torch.manual_seed(0)
    inputs = [torch.randn(1, length, WIDTH, requires_grad=backward) for _ in range(3)]
    score = AdditiveScore(WIDTH, WIDTH, HIDDEN)
    keras, scale = _keras(score)
    ways: dict[str, tuple[Attention, Tensor]] = {
        OURS: (partial(attend, mechanism=Mechanism(score)), score.v),
        _BY_HAND: (partial(_by_hand, score), score.v),
        _KERAS: (keras, scale),
    }
    run = _gradients if backward else _context
    return {name: partial(run, way, inputs, score, v) for name, (way, v) in ways.items()}


def _context(way: Attention, inputs: list[Tensor], score: AdditiveScore, v: Tensor) -> Tensor:
    return way(*inputs)


def _gradients(
    way: Attention, inputs: list[Tensor], score: AdditiveScore, v: Tensor
) -> list[Tensor]:
    context = way(*inputs)
    return [context, *torch.autograd.grad(context.square().mean(), [*inputs, score.W, score.U, v])]


def _by_hand(score: AdditiveScore, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    a, b = F.linear(query, score.W), F.linear(key, score.U)
    scores = (torch.tanh(a[..., :, None, :] + b[..., None, :, :]) * score.v).sum(dim=-1)
    return torch.softmax(scores, dim=-1) @ value


def _keras(score: AdditiveScore) -> tuple[Attention, Tensor]:
    """Keras's layer behind W and U, and the variable that is its v."""
    os.environ["KERAS_BACKEND"] = "torch"
    try:
        from keras.layers import AdditiveAttention
    except ImportError as error:
        return partial(_fail, error), score.v
    layer = AdditiveAttention()
    layer.build([(1, None, HIDDEN), (1, None, WIDTH), (1, None, HIDDEN)])
    layer.scale.assign(score.v.detach())

    def way(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return layer([F.linear(query, score.W), value, F.linear(key, score.U)])

    return way, layer.scale.value


def _fail(error: Exception, *_: Tensor) -> Tensor:
    raise error


def additive_rows(backward: bool, faster: float, effort: Effort) -> Iterator[Row]:
    """Time at each length, and memory at the longest."""
    targets = {peer: Target(faster, at_least=True) for peer in (_BY_HAND, _KERAS)}
    lengths = effort.sizes(128, 512, 1024, 2048)
    for length in lengths:
        contenders = additive(backward, length)
        timings = compare(contenders, effort.repeats, seconds=effort.seconds, gradient=backward)
        yield from time_rows(timings, f"N = M = {length}", targets)
    case, warm = (partial(additive, backward, length) for length in (lengths[-1], 16))
    peaks = {name: peak_memory(case, name, warm=warm, gradient=backward) for name in case()}
    for peer in targets:
        less = Target(10.0, at_least=True)
        yield memory_row(f"N = M = {lengths[-1]}", peer, less, peaks[OURS], peaks[peer])


TABLES = {
    "forward": Table(
        f"Additive score, hidden {HIDDEN}, forward", partial(additive_rows, False, 5.0), 1.5
    ),
    "backward": Table(
        f"Additive score, hidden {HIDDEN}, forward and backward",
        partial(additive_rows, True, 3.0),
        3.0,
    ),
}
