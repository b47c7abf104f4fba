"""A trace as JSON: what `regard look --json` and `regard info --json` print."""

from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.types import AttentionMap, Trace
from regard.views import View

MOST = 1 << 20  # numbers that are printed


def record(trace: Trace, view: View | None) -> dict[str, Any]:
    """The tokens, every map by name, what was not seen, and the weights that a view shows."""
    return {
        "streams": {name: list(tokens.texts) for name, tokens in trace.streams.items()},
        "maps": [_described(each) for each in trace.maps],
        "gaps": [{"site": gap.site, "reason": gap.reason} for gap in trace.gaps],
        "shown": None if view is None else _shown(trace, view),
    }


def _described(each: AttentionMap) -> dict[str, Any]:
    heads, rows, columns = each.shape
    return {
        "site": each.site,
        "kind": each.kind,
        "heads": heads,
        "rows": {"stream": each.rows.stream, "count": rows},
        "columns": {"stream": each.columns.stream, "count": columns},
        "keeps": type(each.source).__name__.lower(),
    }


def _shown(trace: Trace, view: View) -> dict[str, Any]:
    state = view.state
    each = trace.maps[0] if state.site is None else trace[state.site]
    rows, columns = each.shape[1:]
    chosen = range(rows) if state.place is None else range(state.place, state.place + 1)
    if len(chosen) * columns > MOST:
        raise InputError(
            f"{len(chosen) * columns:,} weights are too many to print; choose a row with --query, "
            "or write a file with --out"
        )
    named = each.rows if each.produced is None else each.produced
    return {
        "view": state.view,
        "site": each.site,
        "head": state.head,
        "rows": list(trace.tokens(named[chosen]).texts),
        "columns": list(trace.tokens(each.columns).texts),
        "weights": _weights(each, state.head, chosen).tolist(),
    }


def _weights(each: AttentionMap, head: int | None, rows: range) -> Tensor:
    """The weights of a head, or their mean over heads."""
    heads = range(each.heads) if head is None else range(head, head + 1)
    columns = range(each.shape[2])
    total = each.window(heads[0], rows, columns).mean.double()
    for other in heads[1:]:
        total = total + each.window(other, rows, columns).mean.double()
    return total / len(heads)
