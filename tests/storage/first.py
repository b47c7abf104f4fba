"""The trace that format1.trace holds, written by the first version of the format."""

from dataclasses import fields

import torch

from regard import masks
from regard.kernels.observe import Atlas, Scoring, Statistics, Top
from regard.types import (
    AttentionMap,
    Axis,
    DenseWeights,
    Gap,
    RecomputableWeights,
    SummaryOnly,
    Tokens,
    Trace,
)


def numbers(*sizes: int) -> torch.Tensor:
    return torch.linspace(0, 1, torch.Size(sizes).numel()).view(sizes)


def the_first() -> Trace:
    rows, columns = Axis("target", (0, 1, 2)), Axis("source", (0, 1, 2, 3, 4))
    names = [each.name for each in fields(Statistics)]
    statistics = {name: numbers(2, 3) for name in names} | {"largest_key": numbers(2, 3).int()}
    scoring = Scoring(scale=0.5, mask=masks.causal(), bias=masks.alibi(2), offset=2)
    call = RecomputableWeights(numbers(2, 3, 7), numbers(1, 5, 7), numbers(2, 3), scoring)
    top = Top(numbers(2, 3, 1), numbers(2, 3, 1).int())
    atlas = Atlas(numbers(2, 1, 1), numbers(2, 1, 1), 8, 8)
    whole = (call, Statistics(**statistics), top, atlas, rows)
    maps = (
        AttentionMap("h.0", "cross", rows, columns, *whole),
        AttentionMap("h.1", "cross", rows, columns, DenseWeights(numbers(2, 3, 5))),
        AttentionMap("h.2", "cross", rows, columns, SummaryOnly((2, 3, 5))),
    )
    streams = {"target": Tokens(("我", "爱", "中国")), "source": Tokens.positions(5)}
    return Trace(streams, maps, (Gap("h.3", "it only adds"),))
