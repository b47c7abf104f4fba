"""Writing with any model, token by token: greedy, beam and sampling over one loop."""

from regard.models.generation.generated import Generated
from regard.models.generation.loop import generate
from regard.models.generation.settings import Settings
from regard.models.generation.streaming import stream, stream_ids
from regard.models.generation.writer import State, Writer

__all__ = ["Generated", "Settings", "State", "Writer", "generate", "stream", "stream_ids"]
