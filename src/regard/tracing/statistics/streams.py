"""The tokens of a stream in every example of a batch: which are real, and of what kind."""

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

TokenKinds = Int[Tensor, "example _token"]  # from 0 on; the last kind of all is padding


@dataclass(frozen=True, eq=False)
class Side:
    """Which tokens of a stream are real, and their kinds where these are known."""

    real: Bool[Tensor, "example token"]
    kinds: TokenKinds | None = None


def told_sides(
    call: CallRecord, told: Mapping[str, TokenKinds], padding: int
) -> tuple[Side, Side] | None:
    """The rows and columns of a call, where their lengths alone say what was told of them."""
    batch, _, queries, keys = call.sizes
    found = []
    for length in (queries, keys):
        fit = [each for each in told.values() if each.shape == (batch, length)]
        if len(fit) != 1 or call.windows > 1:
            return None
        found.append(Side(fit[0] != padding, fit[0]))
    return found[0], found[1]


def sides_of(
    stacks: list[StackedCall], told: Mapping[str, TokenKinds], padding: int
) -> dict[StreamKey, Side]:
    """Each stream as the caller told of it; of others, what the masks tell."""
    names = name_streams([stream_keys(each.record) for each in stacks])
    examples = len(stacks[0].rows)
    known = {key: _fitting(name, (examples, key[1]), told) for key, name in names.items()}
    # to ask masks takes time, example by example
    streams = find_streams(stacks) if any(each is None for each in known.values()) else {}
    return {
        key: _by_masks(streams[key]) if kinds is None else Side(kinds != padding, kinds)
        for key, kinds in known.items()
    }


def _fitting(
    name: str, sizes: tuple[int, int], told: Mapping[str, TokenKinds]
) -> TokenKinds | None:
    """What was told of a stream: by its name, or as the only one of its length."""
    fit = [told[name]] if name in told else list(told.values())
    fit = [each for each in fit if each.shape == sizes]
    return fit[0] if len(fit) == 1 else None


def _by_masks(stream: Stream) -> Side:
    runs = [range(0) if each is None else each for each in stream.real]
    if any(run.start for run in runs if run):
        raise InputError(
            f"a tally expected padding at the right, got examples of {stream.name!r} that begin "
            "with it; let the tokenizer pad at the right"
        )
    stops = torch.tensor([run.stop for run in runs])
    return Side(torch.arange(stream.length) < stops[:, None])
