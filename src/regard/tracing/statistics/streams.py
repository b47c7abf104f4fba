"""Which tokens of a stream are real (not padding) in each example of a batch, and their kinds."""

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


def find_told_streams(
    call: CallRecord, told: Mapping[str, KindIndices], padding: int
) -> tuple[StreamTokens, StreamTokens] | None:
    """The tokens of a call's rows and columns, if their lengths alone say which stream they are."""
    batch, _, queries, keys = call.sizes
    found = []
    for length in (queries, keys):
        fit = [each for each in told.values() if each.shape == (batch, length)]
        if len(fit) != 1 or call.windows > 1:
            return None
        found.append(StreamTokens(fit[0] != padding, fit[0]))
    return found[0], found[1]


def find_streams_of_stacks(
    stacks: list[StackedCall], told: Mapping[str, KindIndices], padding: int
) -> dict[StreamKey, StreamTokens]:
    """Each stream as the caller told of it; of others, what the masks tell."""
    names = name_streams([stream_keys(each.record) for each in stacks])
    examples = len(stacks[0].rows)
    known = {key: _kinds_of_stream(name, (examples, key[1]), told) for key, name in names.items()}
    # reading masks is slow, as it is done for each example
    streams = find_streams(stacks) if any(each is None for each in known.values()) else {}
    return {
        key: _read_masks(streams[key]) if kinds is None else StreamTokens(kinds != padding, kinds)
        for key, kinds in known.items()
    }


def _kinds_of_stream(
    name: str, sizes: tuple[int, int], told: Mapping[str, KindIndices]
) -> KindIndices | None:
    """The kinds that were set for a stream: by its name, or as the only ones of its length."""
    fit = [told[name]] if name in told else list(told.values())
    fit = [each for each in fit if each.shape == sizes]
    return fit[0] if len(fit) == 1 else None


def _read_masks(stream: Stream) -> StreamTokens:
    runs = [range(0) if each is None else each for each in stream.real]
    if any(run.start for run in runs if run):
        raise InputError(
            f"a tally expected padding at the right, got examples of {stream.name!r} that begin "
            "with it; let the tokenizer pad at the right"
        )
    stops = torch.tensor([run.stop for run in runs])
    return StreamTokens(torch.arange(stream.length) < stops[:, None])
