"""The values that everything else turns on: Tokens, AttentionMap, Trace."""

from regard.types.maps import AttentionMap, Axis
from regard.types.sources import Dense, Recomputable, Source, Summary
from regard.types.tokens import Tokens
from regard.types.trace import Gap, Trace

__all__ = [
    "AttentionMap",
    "Axis",
    "Dense",
    "Gap",
    "Recomputable",
    "Source",
    "Summary",
    "Tokens",
    "Trace",
]
