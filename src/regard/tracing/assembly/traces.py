"""From the calls that were seen to one trace for each example: rows stacked, padding dropped."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.kernels.observe import Atlas, Scoring, Statistics, Top
from regard.masks import Part, everything
from regard.tracing.assembly.beam_rows import lineage
from regard.tracing.assembly.map_extras import completed
from regard.tracing.assembly.naming import name_tokens
from regard.tracing.assembly.stacking import StackedCall, stack
from regard.tracing.assembly.streams import Streams, find_streams, streams_of
from regard.tracing.assembly.token_labels import Notes
from regard.tracing.recording.options import Form
from regard.tracing.recording.record import CallRecord
from regard.types import (
    AttentionMap,
    Axis,
    DenseWeights,
    RecomputableWeights,
    SummaryOnly,
    Tokens,
    Trace,
)
from regard.types.maps import MapKind, shift_keys


class Traces(Sequence[Trace]):
    """One trace for each example, made when it is first asked for: few look at all of a batch."""

    def __init__(self, count: int, make: Callable[[int], Trace]) -> None:
        self._made: list[Trace | None] = [None] * count
        self._make = make

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> list[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | list[Trace]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        number = range(len(self))[index]
        found = self._made[number]
        if found is None:
            found = self._made[number] = self._make(number)
        return found


def assemble(runs: list[list[CallRecord]], keep: Form, notes: Notes) -> Sequence[Trace]:
    """One trace for each example of the batch, or for each hypothesis that was told or found."""
    if not runs and notes.gaps:
        return [Trace({}, (), notes.gaps)]
    if not runs:
        raise InputError(
            "no attention was seen: looked for scaled_dot_product_attention, "
            "multi_head_attention_forward, regard.attend, registered taps, and products of two "
            "tensors that go through a softmax into a product; run the model inside the block, "
            "and register_tap what attends by other means"
        )
    rows = lineage(runs, None if notes.told is None else notes.told.rows)
    stacks = _named([stack(*each) for each in zip(runs, rows, strict=True)])
    for each in stacks:
        _check_heads(each.call)
    whole = Assembly(stacks, find_streams(stacks), keep, notes)
    return Traces(len(rows[0][0]), whole.trace)


def _check_heads(call: CallRecord) -> None:
    """Refuse chosen heads that there are not, now rather than when the map is made."""
    wrong = [head for head in call.kept.heads or () if not 0 <= head < call.sizes[1]]
    if wrong:
        raise InputError(
            f"expected some of the heads 0 to {call.sizes[1] - 1} of {call.site!r}, got {wrong}"
        )


def _named(stacks: list[StackedCall]) -> list[StackedCall]:
    """A site that attends again, otherwise than by going on, is path#1."""
    count: dict[str, int] = {}
    named = []
    for each in stacks:
        site = each.call.site
        again = count.get(site, 0)
        count[site] = again + 1
        call = replace(each.call, site=f"{site}#{again}") if again else each.call
        named.append(replace(each, call=call))
    return named


@dataclass(frozen=True, eq=False)
class Assembly:
    """The calls of a block, one for each run, and the streams that they look from and at."""

    stacks: list[StackedCall]
    streams: Streams
    keep: Form
    notes: Notes

    def trace(self, number: int) -> Trace:
        """What one example did, or one hypothesis of it."""
        count = len(self.stacks[0].rows)
        tokens = name_tokens(self.streams.values(), number, count, self.notes)
        maps = tuple(
            found
            for each in self.stacks
            if each.rows[number] >= 0
            for part in range(each.call.parts)
            if (found := self._map(number, each, part, tokens)) is not None
        )
        default_site = find_default_site(maps, self.notes.alignment_layer)
        return Trace(tokens, maps, self.notes.gaps, default_site)

    def _map(
        self, number: int, each: StackedCall, part: int, tokens: Mapping[str, Tokens]
    ) -> AttentionMap | None:
        call = each.call
        above, across = (self.streams[key] for key in streams_of(call))
        _, _, queries, keys = call.sizes
        real, columns = above.real[number], across.real[number]
        assert real is not None
        assert columns is not None
        late = above.length - queries  # rows that a cache had read before
        rows = range(max(0, real.start - late), real.stop - late)
        if not rows or not columns:
            return None
        places = tuple(row + late - real.start for row in rows)
        leads = not call.looks_at_itself and len(tokens[above.name]) > len(real)
        place = Part(each.rows[number] * call.parts + part, rows, columns)
        whole = (len(rows), len(columns)) == (queries, keys)
        atlas = None if call.observed is None or not whole else call.observed.atlas
        source = _source(call, place, "windows" if call.kept.edited else self.keep)
        found = AttentionMap(
            call.site if call.parts == 1 else f"{call.site}@{part}",
            _kind(call),
            Axis(above.name, places),
            Axis(across.name, tuple(column - columns.start for column in columns)),
            source,
            _statistics(call, place),
            _top(call, place),
            _atlas(atlas, place.example),
            Axis(above.name, tuple(place + 1 for place in places)) if leads else None,
        )
        return completed(found, call.kept, place, self.keep)


def find_default_site(maps: Sequence[AttentionMap], alignment_layer: int | None) -> str | None:
    """The site of the cross-attention map with this number; None if there is no such map."""
    cross_sites = [attention_map.site for attention_map in maps if attention_map.kind == "cross"]
    if alignment_layer is None or alignment_layer >= len(cross_sites):
        return None
    return cross_sites[alignment_layer]


def _kind(call: CallRecord) -> MapKind:
    if not call.looks_at_itself:
        return "cross"
    _, _, queries, keys = call.sizes
    return "decoder" if call.is_causal or queries < keys else "encoder"


def _source(
    call: CallRecord, part: Part, keep: Form
) -> RecomputableWeights | DenseWeights | SummaryOnly:
    sizes = (call.sizes[1], len(part.rows), len(part.columns))
    if call.weights is not None:
        return (
            SummaryOnly(sizes)
            if keep == "summary"
            else DenseWeights(part.of(call.weights)[0].clone())
        )
    assert call.scoring is not None
    assert call.observed is not None
    if keep == "summary":
        return SummaryOnly(sizes)
    rows, columns = (slice(each.start, each.stop) for each in (part.rows, part.columns))
    recomputable = RecomputableWeights(
        call.query[part.example, :, rows],
        call.key[part.example, :, columns],
        call.observed.lse[part.example, :, rows],
        _scoring(call.scoring, part),
        call.kept.exact,
    )
    if keep == "windows":
        return recomputable
    heads, queries, keys = sizes
    plain = AttentionMap(
        "", "encoder", Axis("", (0,) * queries), Axis("", (0,) * keys), recomputable
    )
    return DenseWeights(torch.stack([plain.weights(head) for head in range(heads)]))


def _scoring(scoring: Scoring, part: Part) -> Scoring:
    mask = (scoring.mask or everything()).within(part)
    bias = None if scoring.bias is None else scoring.bias.within(part)
    return replace(scoring, mask=mask, bias=bias, offset=scoring.offset + part.moved)


def _statistics(call: CallRecord, part: Part) -> Statistics | None:
    """The numbers of the part's rows; keys count from its first column, which is the first key."""
    found = None if call.observed is None else call.observed.statistics
    if found is None:
        return None
    rows = slice(part.rows.start, part.rows.stop)
    found = Statistics(*(each[part.example, :, rows] for each in vars(found).values()))
    if part.columns.start == 0:
        return found
    largest = shift_keys(found.largest_key, part.columns)
    return replace(found, largest_key=largest, on_first=_on_first(call, part).to(found.on_first))


def _on_first(call: CallRecord, part: Part) -> Float[Tensor, "head query"]:
    """What each row gave to the first key that is not padding."""
    first = replace(part, columns=part.columns[:1])
    source = _source(call, first, "windows")
    heads, queries, _ = source.sizes
    plain = AttentionMap("", "encoder", Axis("", (0,) * queries), Axis("", (0,)), source)
    return torch.stack([plain.weights(head)[:, 0] for head in range(heads)])


def _top(call: CallRecord, part: Part) -> Top | None:
    found = None if call.observed is None else call.observed.top
    if found is None:
        return None
    rows = slice(part.rows.start, part.rows.stop)
    keys = shift_keys(found.keys[part.example, :, rows], part.columns)
    return Top(found.weights[part.example, :, rows], keys)


def _atlas(atlas: Atlas | None, example: int) -> Atlas | None:
    if atlas is None:
        return None
    return replace(atlas, mean=atlas.mean[example], largest=atlas.largest[example])
