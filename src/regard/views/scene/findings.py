"""Findings in the header of a scene, as JSON types and back."""

import math
from dataclasses import asdict
from typing import Any

from regard.types.finding import Finding, FindingText, FindingView

Json = dict[str, Any]


def finding_to_json(finding: Finding) -> Json:
    """What a page shows of a finding; numbers that are not finite are null."""
    shown = finding.view
    return {
        "check": finding.check,
        "severity": finding.severity,
        "value": _finite(finding.value),
        "limit": _finite(finding.limit),
        "said": {language: asdict(text) for language, text in finding.texts.items()},
        "site": finding.site,
        "head": finding.head,
        "trace": finding.example,
        "drawing": None if shown is None else _view_to_json(shown),
        "call": finding.remedy_code,
    }


def finding_from_json(state: Json) -> Finding:
    """The finding of these JSON types, without the further numbers that its sentence is made of."""
    drawing = state["drawing"]
    return Finding(
        state["check"],
        state["severity"],
        math.nan if state["value"] is None else state["value"],
        math.nan if state["limit"] is None else state["limit"],
        {language: FindingText(**text) for language, text in state["said"].items()},
        state["site"],
        state["head"],
        state["trace"],
        None if drawing is None else _view_from_json(drawing),
        state["call"],
    )


def _finite(number: float) -> float | None:
    """The number, or None where JSON has no form for it."""
    return float(number) if math.isfinite(number) else None


def _view_to_json(shown: FindingView) -> Json:
    """The picture that a finding points to, as JSON types."""
    return {
        "view": shown.kind,
        "site": shown.site,
        "head": shown.head,
        "rows": list(shown.rows),
        "columns": list(shown.columns),
    }


def _view_from_json(state: Json) -> FindingView:
    """The picture that `_view_to_json` wrote."""
    rows, columns = tuple(state["rows"]), tuple(state["columns"])
    return FindingView(state["view"], state["site"], state["head"], rows, columns)
