"""From any running model to Traces; the only room that touches hooks."""

from regard.tracing import describe as _describe  # noqa: F401  registers torch's own taps
from regard.tracing.watch import Watched, watch

__all__ = ["Watched", "watch"]
