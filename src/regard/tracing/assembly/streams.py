"""The streams of a block: their names, which of their tokens are real, and what these are called.

A stream begins where the flow says so; one that is pooled on its way goes on as another.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.masks import Mask
from regard.masks.mask import AllOf, Explicit, Lengths, Padding
from regard.tracing.assembly.stacking import StackedCall
from regard.tracing.recording.record import CallRecord

Key = tuple[str, int]  # where a stream began, and its length
WINDOW = " window"


@dataclass(frozen=True)
class Stream:
    """A stream: its name, where it began, its length, and the real tokens of each trace.

    None for a trace that has none of it. `decoded` are streams whose rows are read one by one: the
    last of them may have produced one more token.
    """

    name: str
    begun: str
    length: int
    real: Sequence[range | None]
    decoded: bool = False


def streams_of(call: CallRecord) -> tuple[Key, Key]:
    """The streams of the rows and the columns of a call."""
    _, _, queries, keys = call.sizes
    rows = (call.queries or "tokens") + (WINDOW if call.parts > 1 else "")
    if call.looks_at_itself:
        return (rows, keys), (rows, keys)
    return (rows, queries), (call.keys or f"{rows} keys", keys)


def find_streams(stacks: list[StackedCall]) -> dict[Key, Stream]:
    """All streams, in the order in which they were met."""
    calls = [each.call for each in stacks]
    decoded = {streams_of(call)[0] for call in calls if call.is_causal or not call.looks_at_itself}
    real = _real(stacks)
    return {
        key: Stream(name, key[0], key[1], real[key], key in decoded)
        for key, name in names_of([streams_of(call) for call in calls]).items()
    }


def names_of(pairs: list[tuple[Key, Key]]) -> dict[Key, str]:
    """tokens for a single stream, source and target where one looks at another; else its path.

    Of several paths only what tells them apart: text_model and vision_model.
    """
    keys = list(dict.fromkeys(key for pair in pairs for key in pair))
    if len(keys) == 1:
        return {keys[0]: "tokens"}
    short = _shortened(list(dict.fromkeys(label for label, _ in keys)))
    begun = [label for label, _ in keys]
    names = {
        (label, length): short[label] + (f" ({length})" if begun.count(label) > 1 else "")
        for label, length in keys
    }
    crossing = {(rows, columns) for rows, columns in pairs if rows != columns}
    if len(crossing) == 1:
        rows, columns = crossing.pop()
        names[rows], names[columns] = "target", "source"
    return names


def _shortened(labels: list[str]) -> dict[str, str]:
    """The paths without the modules that all have in common, at their beginnings and ends."""
    paths = {label: label.split(".") for label in labels}
    for end in (0, -1):
        while len(labels) > 1 and min(map(len, paths.values())) > 1:
            if len({path[end] for path in paths.values()}) > 1:
                break
            for path in paths.values():
                path.pop(end)
    return {label: ".".join(path) for label, path in paths.items()}


def _real(stacks: list[StackedCall]) -> dict[Key, list[range | None]]:
    """The real tokens of each trace, by the masks, until the trace's end."""
    real: dict[Key, dict[int, range]] = defaultdict(dict)
    stops: dict[tuple[Key, int], int] = {}
    traces = range(len(stacks[0].rows))
    for each in stacks:
        above, across = streams_of(each.call)
        found = real_keys(each.call) if each.call.parts == 1 else None
        for trace, row in enumerate(each.rows):
            if row < 0:
                continue
            real[above].setdefault(trace, range(above[1]))
            real[across].setdefault(trace, range(across[1]))
            if found is not None:
                real[across][trace] = found[row]
            if each.reads[trace] < each.call.sizes[2]:
                stop = above[1] - each.call.sizes[2] + each.reads[trace]
                stops[above, trace] = stop
    for (key, trace), stop in stops.items():
        run = real[key][trace]
        real[key][trace] = range(min(run.start, stop), min(run.stop, stop))
    return {key: [found.get(trace) for trace in traces] for key, found in real.items()}


def real_keys(call: CallRecord) -> tuple[range, ...] | None:
    """Which keys of each row of the batch are not padding, by the mask; padding is at the ends.

    Where the mask is explicit, a key that no other token sees is padding.
    """
    for part in _parts(call.mask):
        if isinstance(part, Padding | Lengths):
            return _runs(part.dense(1, call.sizes[3])[:, 0, 0], call)
    for part in _parts(call.mask):
        if isinstance(part, Explicit) and call.looks_at_itself and not call.is_causal:
            seen = part.seen.any(dim=1)
            others = ~torch.eye(*seen.shape[1:], dtype=torch.bool, device=seen.device)
            return _runs((seen & others).any(dim=1), call)
    return None


def _parts(mask: Mask | None) -> Iterable[Mask]:
    if isinstance(mask, AllOf):
        for part in mask.parts:
            yield from _parts(part)
    elif mask is not None:
        yield mask


def _runs(real: Tensor, call: CallRecord) -> tuple[range, ...]:
    found = tuple(map(_run, real))
    return found * call.sizes[0] if len(found) == 1 else found


def _run(real: Tensor) -> range:
    places = real.nonzero()[:, 0]
    return range(int(places[0]), int(places[-1]) + 1) if len(places) else range(len(real))


Streams = Mapping[Key, Stream]
