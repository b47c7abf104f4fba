"""The values that everything else turns on: Tokens, AttentionMap, Trace, Finding."""

from regard.types.attribution import Attribution, FlowBounds, Occlusion, ValueNorms
from regard.types.counting import Received
from regard.types.finding import Finding, FindingText, FindingView
from regard.types.maps import AttentionMap, Axis
from regard.types.sources import Dense, Recomputable, Source, Summary
from regard.types.tokens import Tokens
from regard.types.trace import Gap, Trace

__all__ = [
    "AttentionMap",
    "Attribution",
    "Axis",
    "Dense",
    "Finding",
    "FindingText",
    "FindingView",
    "FlowBounds",
    "Gap",
    "Occlusion",
    "Received",
    "Recomputable",
    "Source",
    "Summary",
    "Tokens",
    "Trace",
    "ValueNorms",
]
