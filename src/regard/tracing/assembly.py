"""From the calls that were seen to one trace for each example: rows stacked, padding dropped."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.errors import InputError
from regard.kernels import Atlas, Scoring, Statistics, Top
from regard.masks import Mask, Part, everything
from regard.masks.mask import AllOf, Explicit, Lengths, Padding
from regard.tracing.seen import Keep, Seen
from regard.tracing.stacking import stacked
from regard.tracing.told import Notes
from regard.types import AttentionMap, Axis, Dense, Gap, Recomputable, Summary, Tokens, Trace
from regard.types.maps import Kind


@dataclass(frozen=True)
class Stream:
    """A stream of the batch: its name, its length, and which tokens of each example are real."""

    name: str
    length: int
    real: tuple[range, ...]


def assemble(runs: list[list[Seen]], keep: Keep, notes: Notes) -> list[Trace]:
    """One trace for each example of the batch."""
    if not runs:
        raise InputError(
            "no attention was seen: looked for scaled_dot_product_attention, "
            "multi_head_attention_forward, regard.attend, registered taps, and products of two "
            "tensors that go through a softmax into a product; run the model inside the block, "
            "and register_tap what attends by other means"
        )
    joined = [stacked(run) for run in runs]
    batch = max(call.sizes[0] // call.parts for call in joined)
    streams = _streams(joined, batch)
    named = _named(joined)
    return [_trace(example, named, streams, keep) for example in range(batch)]


def _named(calls: list[Seen]) -> list[Seen]:
    """A site that attends again, otherwise than by going on, is path#1."""
    count: dict[str, int] = {}
    named = []
    for call in calls:
        again = count.get(call.site, 0)
        count[call.site] = again + 1
        named.append(replace(call, site=f"{call.site}#{again}") if again else call)
    return named


Key = tuple[str, int]  # where a stream began, and its length


def _stream_keys(call: Seen) -> tuple[Key, Key]:
    """The streams of rows and columns; one that is pooled on its way goes on as another."""
    _, _, queries, keys = call.sizes
    rows = (call.queries or "tokens") + (" window" if call.parts > 1 else "")
    if call.looks_at_itself:
        return (rows, keys), (rows, keys)
    return (rows, queries), (call.keys or f"{rows} keys", keys)


def _streams(calls: list[Seen], batch: int) -> dict[Key, Stream]:
    names = _names(calls)
    real: dict[Key, tuple[range, ...]] = {}
    for call in calls:
        found = _real_keys(call) if call.parts == 1 else None
        if found is not None:
            real[_stream_keys(call)[1]] = found
    return {
        key: Stream(name, key[1], real.get(key) or (range(key[1]),) * batch)
        for key, name in names.items()
    }


def _names(calls: list[Seen]) -> dict[Key, str]:
    """tokens for a single stream, source and target where one looks at another."""
    pairs = [_stream_keys(call) for call in calls]
    keys = list(dict.fromkeys(key for pair in pairs for key in pair))
    if len(keys) == 1:
        return {keys[0]: "tokens"}
    begun = [label for label, _ in keys]
    names = {
        (label, length): label if begun.count(label) == 1 else f"{label} ({length})"
        for label, length in keys
    }
    crossing = {(rows, columns) for rows, columns in pairs if rows != columns}
    if len(crossing) == 1:
        rows, columns = crossing.pop()
        names[rows], names[columns] = "target", "source"
    return names


def _real_keys(call: Seen) -> tuple[range, ...] | None:
    """Which keys of each example are not padding, by the call's mask; padding is at the ends.

    Where the mask is explicit, a key that no other token sees is padding.
    """
    for part in _parts(call.mask):
        if isinstance(part, Padding | Lengths):
            return tuple(map(_run, part.dense(1, call.sizes[3])[:, 0, 0]))
    for part in _parts(call.mask):
        if isinstance(part, Explicit) and call.looks_at_itself and not call.is_causal:
            seen = part.seen.any(dim=1)
            others = ~torch.eye(*seen.shape[1:], dtype=torch.bool, device=seen.device)
            return tuple(map(_run, (seen & others).any(dim=1)))
    return None


def _parts(mask: Mask | None) -> Iterable[Mask]:
    if isinstance(mask, AllOf):
        for part in mask.parts:
            yield from _parts(part)
    elif mask is not None:
        yield mask


def _run(real: Tensor) -> range:
    places = real.nonzero()[:, 0]
    return range(int(places[0]), int(places[-1]) + 1) if len(places) else range(len(real))


def _trace(example: int, calls: list[Seen], streams: dict[Key, Stream], keep: Keep) -> Trace:
    maps = tuple(
        _map(example, part, call, streams, keep) for call in calls for part in range(call.parts)
    )
    tokens = {each.name: Tokens.positions(len(each.real[example])) for each in streams.values()}
    return Trace(tokens, maps, tuple[Gap, ...]())


def _map(
    example: int, part: int, call: Seen, streams: dict[Key, Stream], keep: Keep
) -> AttentionMap:
    above, across = (streams[key] for key in _stream_keys(call))
    _, _, queries, keys = call.sizes
    columns = across.real[example]
    late = above.length - queries  # rows that a cache had read before
    real = above.real[example]
    rows = range(max(0, real.start - late), real.stop - late)
    place = Part(example * call.parts + part, rows, columns)
    observed = call.observed
    whole = (len(rows), len(columns)) == (queries, keys)
    return AttentionMap(
        call.site if call.parts == 1 else f"{call.site}@{part}",
        _kind(call),
        Axis(above.name, tuple(row + late - real.start for row in rows)),
        Axis(across.name, tuple(column - columns.start for column in columns)),
        _source(call, place, keep),
        None if observed is None else _rows(observed.statistics, place),
        None if observed is None else _rows(observed.top, place),
        _atlas(observed.atlas, place.example) if observed is not None and whole else None,
    )


def _kind(call: Seen) -> Kind:
    if not call.looks_at_itself:
        return "cross"
    return "decoder" if call.is_causal else "encoder"


def _source(call: Seen, part: Part, keep: Keep) -> Recomputable | Dense | Summary:
    sizes = (call.sizes[1], len(part.rows), len(part.columns))
    if call.weights is not None:
        return Summary(sizes) if keep == "summary" else Dense(part.of(call.weights)[0].clone())
    assert call.scoring is not None
    assert call.observed is not None
    if keep == "summary":
        return Summary(sizes)
    rows, columns = (slice(each.start, each.stop) for each in (part.rows, part.columns))
    recomputable = Recomputable(
        call.query[part.example, :, rows],
        call.key[part.example, :, columns],
        call.observed.lse[part.example, :, rows],
        _scoring(call.scoring, part),
    )
    if keep == "windows":
        return recomputable
    heads, queries, keys = sizes
    plain = AttentionMap(
        "", "encoder", Axis("", (0,) * queries), Axis("", (0,) * keys), recomputable
    )
    return Dense(torch.stack([plain.weights(head) for head in range(heads)]))


def _scoring(scoring: Scoring, part: Part) -> Scoring:
    mask = (scoring.mask or everything()).within(part)
    bias = None if scoring.bias is None else scoring.bias.within(part)
    return replace(scoring, mask=mask, bias=bias, offset=scoring.offset + part.moved)


def _rows(numbers: Statistics | Top | None, part: Part):  # type: ignore[no-untyped-def]
    if numbers is None:
        return None
    rows = slice(part.rows.start, part.rows.stop)
    return type(numbers)(*(each[part.example, :, rows] for each in vars(numbers).values()))


def _atlas(atlas: Atlas | None, example: int) -> Atlas | None:
    if atlas is None:
        return None
    return replace(atlas, mean=atlas.mean[example], largest=atlas.largest[example])
