"""The values that everything else turns on: Tokens, AttentionMap, Trace, Finding."""

from regard.types.counting import Received
from regard.types.finding import Drawing, Finding, Saying
from regard.types.maps import AttentionMap, Axis
from regard.types.sources import Dense, Recomputable, Source, Summary
from regard.types.tokens import Tokens
from regard.types.trace import Gap, Trace

__all__ = [
    "AttentionMap",
    "Axis",
    "Dense",
    "Drawing",
    "Finding",
    "Gap",
    "Received",
    "Recomputable",
    "Saying",
    "Source",
    "Summary",
    "Tokens",
    "Trace",
]
