"""Writing with any model, token by token: greedy, beam and sampling over one loop."""

from regard.models.generation.loop import State, Writer, generate
from regard.models.generation.result import Generated
from regard.models.generation.settings import Settings
from regard.models.generation.streaming import stream, stream_ids

__all__ = ["Generated", "Settings", "State", "Writer", "generate", "stream", "stream_ids"]
