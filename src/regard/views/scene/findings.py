"""Findings in the header of a scene, as JSON types and back."""

import math
from dataclasses import asdict
from typing import Any

from regard.types.finding import Finding, FindingText, FindingView

Json = dict[str, Any]


def packed_finding(finding: Finding) -> Json:
    """What a page shows of a finding; numbers that JSON does not have are null."""
    drawing = finding.view
    return {
        "check": finding.check,
        "severity": finding.severity,
        "value": _finite(finding.value),
        "limit": _finite(finding.limit),
        "said": {language: asdict(each) for language, each in finding.texts.items()},
        "site": finding.site,
        "head": finding.head,
        "trace": finding.example,
        "drawing": None if drawing is None else _packed_drawing(drawing),
        "call": finding.remedy_code,
    }


def unpacked_finding(state: Json) -> Finding:
    """The finding that was packed, but for the further numbers that its sentence was made of."""
    drawing = state["drawing"]
    return Finding(
        state["check"],
        state["severity"],
        math.nan if state["value"] is None else state["value"],
        math.nan if state["limit"] is None else state["limit"],
        {language: FindingText(**each) for language, each in state["said"].items()},
        state["site"],
        state["head"],
        state["trace"],
        None if drawing is None else _unpacked_drawing(drawing),
        state["call"],
    )


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _packed_drawing(drawing: FindingView) -> Json:
    return {
        "view": drawing.kind,
        "site": drawing.site,
        "head": drawing.head,
        "rows": list(drawing.rows),
        "columns": list(drawing.columns),
    }


def _unpacked_drawing(state: Json) -> FindingView:
    rows, columns = tuple(state["rows"]), tuple(state["columns"])
    return FindingView(state["view"], state["site"], state["head"], rows, columns)
