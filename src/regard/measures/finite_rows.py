"""Rows of a map that are no numbers: which they are, and the same trace without them.

NaN in a query spoils its row, NaN in a key or a sink every row that sees it. Measures of a trace
with such rows are NaN, so that nobody takes them for numbers. Whoever wants to know about the other
rows takes the trace without these.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.types import AttentionMap, DenseWeights, RecomputableWeights, Trace
from regard.types.sources import WeightSource


def finite_rows(attention_map: AttentionMap) -> Bool[Tensor, "head query"]:
    """True for the rows whose statistics, the sink's share included, are all finite.

    >>> import torch
    >>> from regard.measures.finite_rows import finite_rows
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[0.5, 0.5], [torch.nan, 0.5]])
    >>> finite_rows(Trace.from_weights(weights, ["我", "爱"])["weights"])
    tensor([[ True, False]])
    """
    numbers = attention_map.row_statistics
    parts = (numbers.entropy, numbers.largest, numbers.distance, numbers.on_sink)
    return torch.stack([part.isfinite().cpu() for part in parts]).all(dim=0)


def empty_other_rows(trace: Trace) -> Trace:
    """The trace with rows that are not finite emptied, as if they attended to nothing.

    >>> import torch
    >>> from regard.measures.finite_rows import empty_other_rows
    >>> from regard.types import Trace
    >>> weights = torch.tensor([[0.5, 0.5], [torch.nan, 0.5]])
    >>> empty_other_rows(Trace.from_weights(weights, ["我", "爱"]))["weights"].weights()
    tensor([[[0.5000, 0.5000],
             [0.0000, 0.0000]]])
    """
    finite = [finite_rows(attention_map) for attention_map in trace.maps]
    if all(bool(rows.all()) for rows in finite):
        return trace
    maps = tuple(
        attention_map if bool(rows.all()) else _empty_rows(attention_map, ~rows)
        for attention_map, rows in zip(trace.maps, finite, strict=True)
    )
    return replace(trace, maps=maps)


def _empty_rows(attention_map: AttentionMap, rows: Bool[Tensor, "head query"]) -> AttentionMap:
    """The map without the weights and statistics of these rows; pooled cells stay as they are."""
    statistics = attention_map.statistics
    if statistics is not None:
        empty = rows.to(statistics.entropy.device)
        parts = {name: part.masked_fill(empty, 0) for name, part in vars(statistics).items()}
        parts["largest_key"] = statistics.largest_key.masked_fill(empty, -1)
        statistics = replace(statistics, **parts)
    return replace(
        attention_map, source=_empty_source(attention_map.source, rows), statistics=statistics
    )


def _empty_source(source: WeightSource, rows: Bool[Tensor, "head query"]) -> WeightSource:
    """The weights with zeros in these rows."""
    if isinstance(source, DenseWeights):
        weights = source.weights
        return DenseWeights(weights.masked_fill(rows[..., None].to(weights.device), 0.0))
    if isinstance(source, RecomputableWeights):
        # a weight is exp(score - lse): a finite score and an infinite lse make it zero
        query, key = (side.nan_to_num(0.0, 0.0, 0.0) for side in (source.query, source.key))
        sink = source.scoring.sink
        scoring = replace(source.scoring, sink=None if sink is None else sink.nan_to_num())
        lse = source.lse.masked_fill(rows.to(source.lse.device), torch.inf)
        return replace(source, query=query, key=key, lse=lse, scoring=scoring)
    return source
