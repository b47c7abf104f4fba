"""Small texts that attend to themselves or to one another, of every source; sizes are primes."""

from dataclasses import replace

import torch

from regard import masks
from regard.kernels.observe import ObserveOptions, observe
from regard.types import (
    AttentionMap,
    Axis,
    DenseWeights,
    RecomputableWeights,
    SummaryOnly,
    Tokens,
    Trace,
)
from traces import example

HEADS, LENGTH, ROWS, COLUMNS, DIM = 3, 11, 7, 13, 5
SOURCES = ("recomputable", "counted", "dense", "long")
WORDS = ("<s>", "the", "cat", ",", "the", "dog", "。", "cat", "saw", "the", "</s>")
TEXT = Tokens(WORDS, ids=(0, 5, 6, 7, 5, 8, 9, 6, 11, 5, 2), special=(True, *[False] * 9, True))


def attend(rows, columns, *, mask=None, sink=False, dtype=torch.float64):
    """A source with all that is seen of it, sharp enough for heads to differ."""
    query, key = (torch.randn(1, HEADS, n, DIM).to(dtype) * 2 for n in (rows, columns))
    logits = torch.linspace(-1, 1, HEADS) if sink else None
    seen = observe(query, key, key, mask=mask, sink=logits, keep=ObserveOptions(atlas=2))
    source = RecomputableWeights(query[0], key[0], seen.lse[0], seen.scoring)
    return source, example(seen.statistics), example(seen.atlas)


def a_text(*, mask=None, sink=False, tokens=TEXT, dtype=torch.float64):
    """A trace of a text that looks at itself, at the site h.0."""
    axis = Axis("tokens", tuple(range(len(tokens))))
    parts = attend(len(tokens), len(tokens), mask=mask, sink=sink, dtype=dtype)
    kind = "encoder" if mask is None else "decoder"
    return Trace({"tokens": tokens}, (_map(kind, axis, axis, parts),))


def a_decoder(**options):
    """A trace of a text that never looks ahead."""
    return a_text(mask=masks.causal(), **options)


def a_translation(*, special=True):
    """A trace of a target of seven rows that looks at a source of thirteen tokens, at h.0."""
    target = Tokens(
        ("<s>", *"我爱中国的猫", "</s>"),
        words=(None, *range(6), None),
        special=(True, *[False] * 6, True),
    )
    pieces = tuple(f"▁w{n}" if n % 3 else f"p{n}" for n in range(COLUMNS - 1))
    source = Tokens(
        (*pieces, "</s>"),
        words=(*(n // 3 for n in range(COLUMNS - 1)), None),
        special=(*[False] * (COLUMNS - 1), True) if special else None,
    )
    rows, columns = Axis("target", tuple(range(ROWS))), Axis("source", tuple(range(COLUMNS)))
    each = _map("cross", rows, columns, attend(ROWS, COLUMNS))
    each = replace(each, produced=Axis("target", tuple(range(1, ROWS + 1))))
    return Trace({"target": target, "source": source}, (each,))


def _map(kind, rows, columns, parts):
    source, statistics, atlas = parts
    return AttentionMap("h.0", kind, rows, columns, source, statistics, atlas=atlas)


def of_source(trace, source):
    """The same trace with its map's weights from elsewhere."""
    each = trace["h.0"]
    if source == "counted":
        each = replace(each, statistics=None, atlas=None)
    if source == "dense":
        each = replace(each, source=DenseWeights(each.weights()), statistics=None, atlas=None)
    if source == "long":
        each = replace(each, source=DenseWeights(each.weights()))
    if source == "summary":
        each = replace(each, source=SummaryOnly(each.shape))
    return with_map(trace, each)


def with_map(trace, each):
    """The trace with another map in place of its own."""
    return Trace(trace.streams, (each,))


def with_weights(weights, tokens=None):
    """A trace of one text whose weights these are, at the site h.0."""
    weights = torch.as_tensor(weights, dtype=torch.float64)
    tokens = tokens or [f"w{n}" for n in range(weights.shape[-1])]
    return Trace.from_weights({"h.0": weights}, tokens)
