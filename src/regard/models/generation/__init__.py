"""Writing with any model, token by token: greedy, beam and sampling over one loop."""

from regard.models.generation.loop import DecodingState, GenerativeModel, generate
from regard.models.generation.result import GeneratedSequences
from regard.models.generation.settings import GenerationSettings
from regard.models.generation.streaming import stream, stream_ids

__all__ = [
    "DecodingState",
    "GeneratedSequences",
    "GenerationSettings",
    "GenerativeModel",
    "generate",
    "stream",
    "stream_ids",
]
