"""The weights that a view of a trace shows, as JSON types."""

from typing import Any

from torch import Tensor

from regard.types import AttentionMap, Trace
from regard.views.outputs import View

__all__ = ["count_shown_weights", "shown_weights"]


def shown_weights(trace: Trace, view: View) -> dict[str, Any]:
    """The rows, columns and weights of the map that a view shows: all rows, or the chosen one.

    >>> import torch, regard
    >>> from regard.views.shown_weights import shown_weights
    >>> trace = regard.Trace.from_weights(torch.eye(3), ["我", "爱", "中国"])
    >>> shown = shown_weights(trace, regard.view(trace, query="爱"))
    >>> shown["rows"], shown["weights"]
    (['爱'], [[0.0, 1.0, 0.0]])
    """
    attention_map, rows = _shown_map(trace, view), _shown_rows(trace, view)
    axis = attention_map.rows if attention_map.produced is None else attention_map.produced
    return {
        "view": view.state.view,
        "site": attention_map.site,
        "head": view.state.head,
        "rows": list(trace.tokens(axis[rows]).texts),
        "columns": list(trace.tokens(attention_map.columns).texts),
        "weights": _mean_over_heads(attention_map, view.state.head, rows).tolist(),
    }


def count_shown_weights(trace: Trace, view: View) -> int:
    """The number of weights that `shown_weights` gives."""
    return len(_shown_rows(trace, view)) * _shown_map(trace, view).shape[2]


def _shown_map(trace: Trace, view: View) -> AttentionMap:
    """The map of the view's site; without a site, the first map of the trace."""
    return trace.maps[0] if view.state.site is None else trace[view.state.site]


def _shown_rows(trace: Trace, view: View) -> range:
    """The pinned row of the view alone, or all rows of its map."""
    row = view.state.place
    return range(_shown_map(trace, view).shape[1]) if row is None else range(row, row + 1)


def _mean_over_heads(attention_map: AttentionMap, head: int | None, rows: range) -> Tensor:
    """The weights of a head, or the mean over all heads, in float64."""
    heads = range(attention_map.heads) if head is None else range(head, head + 1)
    columns = range(attention_map.shape[2])
    total = attention_map.window(heads[0], rows, columns).mean.double()
    for other in heads[1:]:
        total = total + attention_map.window(other, rows, columns).mean.double()
    return total / len(heads)
