"""Sliding windows: time against peers that also skip hidden keys, and growth with the length."""

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from bench.attention import queries_keys_values
from bench.measure import OURS, Contender, Effort, Row, Table, Target, compare, time_rows
from regard.attention import Mechanism, attend
from regard.masks import window

LEFT = 256

_LOCAL, _FLEX = "local-attention", "FlexAttention, compiled"


def windows(length: int) -> Mapping[str, Contender]:
    """The same causal window by three implementations."""
    inputs = queries_keys_values(length)
    mechanism = Mechanism(mask=window(LEFT, 0))
    return {
        OURS: lambda: attend(*inputs, mechanism),
        _LOCAL: partial(_local, inputs),
        _FLEX: _flex(inputs),
    }


def _local(inputs: list[Tensor]) -> Tensor:
    """The package local-attention."""
    from local_attention import LocalAttention

    attention = LocalAttention(
        window_size=LEFT,
        causal=True,
        look_backward=1,
        look_forward=0,
        exact_windowsize=True,
        dropout=0.0,
        use_rotary_pos_emb=False,
    )
    return attention(*inputs)


def _flex(inputs: list[Tensor]) -> Contender:
    """torch's FlexAttention; its block mask is made and compiled before it is timed."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.compiler.reset()
    length = inputs[0].shape[2]
    make = torch.compile(create_block_mask, dynamic=False)
    try:
        blocks = make(_seen, None, None, length, length, device="cpu")
    except Exception as error:
        return partial(_fail, error)
    return partial(torch.compile(flex_attention, dynamic=False), *inputs, block_mask=blocks)


def _seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return (key <= query) & (query - key <= LEFT)


def _fail(error: Exception) -> None:
    raise error


def window_rows(effort: Effort) -> Iterator[Row]:
    """Time at each length against both peers."""
    targets = {_LOCAL: Target(5.0, at_least=True), _FLEX: Target(1.2, at_least=True)}
    for length in effort.sizes(4096, 8192, 16384, 32768, 65536):
        timings = compare(windows(length), effort.repeats, seconds=effort.seconds)
        yield from time_rows(timings, f"N = {length}", targets)


def growth_rows(effort: Effort) -> Iterator[Row]:
    """Our time per token at each length divided by that at the shortest length."""
    mechanism = Mechanism(mask=window(LEFT, 0))
    shortest, *lengths = effort.sizes(4096, 8192, 16384, 32768, 65536)
    contenders = {
        str(length): partial(attend, *queries_keys_values(length), mechanism)
        for length in (shortest, *lengths)
    }
    seconds = 2 * effort.seconds
    timings = compare(contenders, 2 * effort.repeats, seconds=seconds, check=False)
    for length in lengths:
        tokens, sides = length / shortest, (str(length), str(shortest))
        ratio, median = timings.ratio(*sides) / tokens, timings.median(*sides) / tokens
        peer = f"itself at N = {shortest}"
        yield Row(f"N = {length}", peer, "time per token", ratio, median, Target(1.15))


TABLES = {
    "causal": Table(f"Sliding window, causal, {LEFT} keys back", window_rows, 3.0),
    "growth": Table("Sliding window, our time per token as the text grows", growth_rows, 0.2),
}
