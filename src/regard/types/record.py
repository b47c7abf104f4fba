"""A trace as JSON types: its tokens, what its maps are, and what could not be captured."""

from typing import Any

from regard.types.maps import AttentionMap
from regard.types.trace import Trace

__all__ = ["trace_record"]


def trace_record(trace: Trace) -> dict[str, Any]:
    """The tokens of each stream, a description of each map without its weights, and the gaps.

    >>> import torch
    >>> from regard.types import Trace
    >>> from regard.types.record import trace_record
    >>> record = trace_record(Trace.from_weights(torch.eye(3), ["我", "爱", "中国"]))
    >>> record["maps"][0]["site"], record["maps"][0]["heads"]
    ('weights', 1)
    """
    return {
        "streams": {name: list(tokens.texts) for name, tokens in trace.streams.items()},
        "maps": [_map_record(attention_map) for attention_map in trace.maps],
        "gaps": [{"site": gap.site, "reason": gap.reason} for gap in trace.gaps],
    }


def _map_record(attention_map: AttentionMap) -> dict[str, Any]:
    """The site, kind, sizes and streams of a map, and the form in which it keeps its weights."""
    heads, rows, columns = attention_map.shape
    return {
        "site": attention_map.site,
        "kind": attention_map.kind,
        "heads": heads,
        "rows": {"stream": attention_map.rows.stream, "count": rows},
        "columns": {"stream": attention_map.columns.stream, "count": columns},
        "keeps": attention_map.source.form,
    }
