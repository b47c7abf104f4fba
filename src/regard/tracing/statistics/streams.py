"""Which tokens of a stream are real (not padding) in each example of a batch, and their kinds.

The caller usually knows both, as the texts were encoded before the model ran. Otherwise padding is
read from the masks of the attention calls, and the kinds are unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.errors import InputError
from regard.tracing.assembly.stacking import StackedCall
from regard.tracing.assembly.streams import (
    Stream,
    StreamKey,
    find_streams,
    name_streams,
    stream_keys,
)
from regard.tracing.recording.record import CallRecord

KindIndices = Int[Tensor, "example _token"]  # from 0 on; the last kind of all is padding


@dataclass(frozen=True, eq=False)
class StreamTokens:
    """Which tokens of a stream are real in each example, and their kinds where these are known."""

    real: Bool[Tensor, "example token"]
    kinds: KindIndices | None = None


def find_streams_by_length(
    call: CallRecord, stream_kinds: Mapping[str, KindIndices], padding: int
) -> tuple[StreamTokens, StreamTokens] | None:
    """The tokens of a call's rows and columns, found by their lengths alone.

    None if no stream has such a length, or several have, or if the call attends within windows.
    """
    batch, _, queries, keys = call.sizes
    sides = []
    for length in (queries, keys):
        matching = [kinds for kinds in stream_kinds.values() if kinds.shape == (batch, length)]
        if len(matching) != 1 or call.windows > 1:
            return None
        sides.append(StreamTokens(matching[0] != padding, matching[0]))
    return sides[0], sides[1]


def find_streams_of_stacks(
    stacks: list[StackedCall], stream_kinds: Mapping[str, KindIndices], padding: int
) -> dict[StreamKey, StreamTokens]:
    """The tokens of each stream, by the kinds that the caller set, else by the calls' masks."""
    names = name_streams([stream_keys(stack.record) for stack in stacks])
    examples = len(stacks[0].rows)
    known = {
        key: _kinds_of_stream(name, (examples, key[1]), stream_kinds) for key, name in names.items()
    }
    # masks are read only if they are needed: it is slow, as it is done for each example
    streams = find_streams(stacks) if any(kinds is None for kinds in known.values()) else {}
    return {
        key: _read_masks(streams[key]) if kinds is None else StreamTokens(kinds != padding, kinds)
        for key, kinds in known.items()
    }


def _kinds_of_stream(
    name: str, sizes: tuple[int, int], stream_kinds: Mapping[str, KindIndices]
) -> KindIndices | None:
    """The kinds that were set for a stream: by its name, or as the only ones of its length."""
    candidates = [stream_kinds[name]] if name in stream_kinds else list(stream_kinds.values())
    matching = [kinds for kinds in candidates if kinds.shape == sizes]
    return matching[0] if len(matching) == 1 else None


def _read_masks(stream: Stream) -> StreamTokens:
    """The real tokens of a stream, as the masks of its calls show them; their kinds are unknown."""
    runs = [range(0) if run is None else run for run in stream.real]
    if any(run.start for run in runs if run):
        raise InputError(
            f"a tally expected padding at the right, got examples of {stream.name!r} that begin "
            "with it; let the tokenizer pad at the right"
        )
    stops = torch.tensor([run.stop for run in runs])
    return StreamTokens(torch.arange(stream.length) < stops[:, None])
