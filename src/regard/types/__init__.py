"""The values that everything else turns on: Tokens, AttentionMap, Trace, Finding."""

from regard.types.counting import Received
from regard.types.finding import Finding, FindingText, FindingView
from regard.types.maps import AttentionMap, Axis
from regard.types.sources import Dense, Recomputable, Source, Summary
from regard.types.tokens import Tokens
from regard.types.trace import Gap, Trace

__all__ = [
    "AttentionMap",
    "Axis",
    "Dense",
    "Finding",
    "FindingText",
    "FindingView",
    "Gap",
    "Received",
    "Recomputable",
    "Source",
    "Summary",
    "Tokens",
    "Trace",
]
