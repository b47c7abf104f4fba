"""What one model did with one example: its streams of tokens, its maps and what was not seen."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError, ShapeError, UnknownNameError
from regard.types.maps import AttentionMap, Axis, Kind
from regard.types.sources import Dense
from regard.types.tokens import Tokens

Array = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Gap:
    """A site that attends in a way that cannot be mapped, and why."""

    site: str
    reason: str


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything that was captured of one example.

    `default_site` is the map that pictures show first, where the model says which of its maps is
    the most telling: the cross-attention layer that its config names as `alignment_layer`. It is
    None if nothing is known.

    >>> import torch
    >>> from regard.types import Trace
    >>> trace = Trace.from_weights(torch.eye(3), ["我", "爱", "中国"])
    >>> trace
    <Trace of tokens (3): 1 map, 1 head>
      <encoder map 'weights': 1 head, 3 tokens rows x 3 tokens columns, dense>
    >>> trace["weights"].weights(0).tolist()[1]
    [0.0, 1.0, 0.0]
    """

    streams: Mapping[str, Tokens]
    maps: tuple[AttentionMap, ...]
    gaps: tuple[Gap, ...] = field(default=())
    default_site: str | None = None

    def __post_init__(self) -> None:
        if self.default_site is not None:
            self[self.default_site]  # refuses a site that the trace does not have
        for each in self.maps:
            for axis in (each.rows, each.columns, each.produced):
                if axis is not None:
                    self._check_places(each.site, axis)

    def _check_places(self, site: str, axis: Axis) -> None:
        if axis.stream not in self.streams:
            raise UnknownNameError("stream", axis.stream, self.streams)
        stop = len(self.streams[axis.stream])
        if axis.places and not 0 <= min(axis.places) <= max(axis.places) < stop:
            raise InputError(
                f"the map of {site!r} expected places within the {stop} tokens of "
                f"{axis.stream!r}, got {min(axis.places)} to {max(axis.places)}"
            )

    @classmethod
    def from_weights(
        cls,
        weights: Float[Tensor, "*layer_head query key"]
        | NDArray[Any]
        | Mapping[str, Array]
        | Sequence[Array | None],
        tokens: Sequence[str] | Tokens,
        keys: Sequence[str] | Tokens | None = None,
    ) -> "Trace":
        """A trace of weights that one already has: (query key), (head query key), or by site.

        Four axes are (layer head query key). A tuple or list has one for each layer, as
        `output_attentions=True` of transformers gives them: (1 head query key), with a batch of
        one. With `keys`, the columns have tokens of their own.
        """
        streams = {"tokens" if keys is None else "queries": _tokens(tokens)}
        if keys is not None:
            streams["keys"] = _tokens(keys)
        rows, columns = next(iter(streams)), list(streams)[-1]
        kind: Kind = "encoder" if keys is None else "cross"
        maps = tuple(
            AttentionMap(
                site,
                kind,
                Axis(rows, tuple(range(len(streams[rows])))),
                Axis(columns, tuple(range(len(streams[columns])))),
                Dense(each),
            )
            for site, each in _by_site(weights).items()
        )
        return cls(streams, maps)

    def __getitem__(self, site: str) -> AttentionMap:
        for each in self.maps:
            if each.site == site:
                return each
        raise UnknownNameError("attention site", site, [each.site for each in self.maps])

    def __iter__(self) -> Iterator[AttentionMap]:
        return iter(self.maps)

    def __len__(self) -> int:
        return len(self.maps)

    def of(self, kind: Kind) -> tuple[AttentionMap, ...]:
        """The maps of one kind: encoder, decoder or cross."""
        return tuple(each for each in self.maps if each.kind == kind)

    def tokens(self, axis: Axis) -> Tokens:
        """The tokens that the rows or columns of a map are."""
        return self.streams[axis.stream][axis.places]

    def part(self, stream: str, start: int, stop: int) -> "Trace":
        """The same trace with only some tokens of a stream, wherever they are rows or columns.

        Maps that have none of them are left out. Where a map has the tokens in another order, it
        keeps the shortest run that holds them all.
        """
        if stream not in self.streams:
            raise UnknownNameError("stream", stream, self.streams)
        if not 0 <= start < stop <= len(self.streams[stream]):
            raise InputError(
                f"expected tokens within 0 to {len(self.streams[stream])} of {stream!r}, got "
                f"{start} to {stop}"
            )
        kept = []
        for each in self.maps:
            rows = _run(each.rows, stream, start, stop)
            columns = _run(each.columns, stream, start, stop)
            if rows and columns:
                kept.append(each.part(rows, columns))
        sites = {attention_map.site for attention_map in kept}
        default_site = self.default_site if self.default_site in sites else None
        return Trace(self.streams, tuple(kept), self.gaps, default_site)

    def __repr__(self) -> str:
        streams = ", ".join(f"{name} ({len(each)})" for name, each in self.streams.items())
        heads = sum(each.heads for each in self.maps)
        lines = [
            f"<Trace of {streams}: {len(self)} map{'s' * (len(self) != 1)}, "
            f"{heads} head{'s' * (heads != 1)}>"
        ]
        lines += [f"  {each}" for each in self.maps[:_SHOWN]]
        if len(self) > _SHOWN:
            lines.append(f"  … and {len(self) - _SHOWN} more")
        lines += [f"  gap {gap.site!r}: {gap.reason}" for gap in self.gaps]
        return "\n".join(lines)


_SHOWN = 6


def _tokens(tokens: Sequence[str] | Tokens) -> Tokens:
    return tokens if isinstance(tokens, Tokens) else Tokens(tuple(map(str, tokens)))


def _run(axis: Axis, stream: str, start: int, stop: int) -> range:
    """The run of the axis that holds these tokens of the stream; all of it for another stream."""
    if axis.stream != stream:
        return range(len(axis))
    inside = [index for index, place in enumerate(axis.places) if start <= place < stop]
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def _by_site(
    weights: Array | Mapping[str, Array] | Sequence[Array | None],
) -> dict[str, Tensor]:
    if isinstance(weights, Mapping):
        return {site: _heads(_tensor(each)) for site, each in weights.items()}
    if isinstance(weights, list | tuple):
        layers = enumerate(weights)  # None is a layer that does not attend
        return {f"layer {index}": _layer(each) for index, each in layers if each is not None}
    assert isinstance(weights, Tensor | np.ndarray)
    weights = _tensor(weights)
    if weights.dim() == 4:
        return {f"layer {index}": each for index, each in enumerate(weights)}
    return {"weights": _heads(weights)}


def _layer(weights: Array) -> Tensor:
    if not isinstance(weights, Tensor | np.ndarray):
        raise InputError(
            "expected a tensor or an array of weights for each layer, got "
            f"{type(weights).__name__}; make one array of numbers with torch.tensor"
        )
    found = _tensor(weights)
    if found.dim() == 4 and len(found) != 1:
        raise InputError(
            f"expected the weights of one example, (1 head query key), got a batch of "
            f"{len(found)}; make a trace of each: [layer[:1] for layer in weights] is the first"
        )
    return found[0] if found.dim() == 4 else _heads(found)


def _tensor(weights: Array) -> Tensor:
    # a copy: torch cannot share arrays that are read-only or run backwards
    found = weights if isinstance(weights, Tensor) else torch.from_numpy(np.array(weights))
    if not found.is_floating_point():
        raise InputError(
            f"expected weights in floating point, got {found.dtype}; convert them to float first"
        )
    return found


def _heads(weights: Tensor) -> Tensor:
    if weights.dim() not in (2, 3):
        raise ShapeError(
            "expected weights with the axes (query key), (head query key) or "
            f"(layer head query key), got {tuple(weights.shape)}"
        )
    return weights[None] if weights.dim() == 2 else weights
