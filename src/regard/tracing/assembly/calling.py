"""What a call is called: the kind of its attention."""

from regard.tracing.recording.record import CallRecord
from regard.types.maps import MapKind


def kind_of(call: CallRecord) -> MapKind:
    """Cross where keys are of another stream; decoder where no query sees a later key."""
    if not call.looks_at_itself:
        return "cross"
    _, _, queries, keys = call.sizes
    return "decoder" if call.is_causal or queries < keys else "encoder"
