"""From any running model to Traces; the only room that touches hooks."""

from regard.tracing.calls import describe as _describe  # noqa: F401  registers torch's own taps
from regard.tracing.calls import flex as _flex  # noqa: F401  registers flex_attention's
from regard.tracing.calls.edits import Call, Edit, knock_out, patch, uniform
from regard.tracing.calls.keeping import Keep
from regard.tracing.capture import capture
from regard.tracing.watch import Watched, watch

__all__ = [
    "Call",
    "Edit",
    "Keep",
    "Watched",
    "capture",
    "knock_out",
    "patch",
    "uniform",
    "watch",
]
