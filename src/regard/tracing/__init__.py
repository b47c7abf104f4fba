"""From any running model to Traces; the only room that touches hooks."""

from regard.tracing.capture import capture
from regard.tracing.recording import flex as _flex  # noqa: F401  registers flex_attention's
from regard.tracing.recording import sdpa as _sdpa  # noqa: F401  registers torch's own taps
from regard.tracing.recording.edits import AttentionCall, Edit, knock_out, patch, uniform
from regard.tracing.recording.options import Keep
from regard.tracing.watch import Watched, watch

__all__ = [
    "AttentionCall",
    "Edit",
    "Keep",
    "Watched",
    "capture",
    "knock_out",
    "patch",
    "uniform",
    "watch",
]
