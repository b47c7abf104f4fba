"""What one model did with one example: its tokens, its maps, and what could not be captured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import InputError, ShapeError, UnknownNameError
from regard.types.maps import AttentionMap, Axis, MapKind
from regard.types.sources import DenseWeights
from regard.types.tokens import Tokens

Array = Tensor | NDArray[Any]


@dataclass(frozen=True)
class Gap:
    """A site whose attention could not be captured as a map, and the reason."""

    site: str
    reason: str


@dataclass(frozen=True, eq=False)
class Trace:
    """Everything that was captured of one example.

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

    def __post_init__(self) -> None:
        for attention_map in self.maps:
            for axis in (attention_map.rows, attention_map.columns, attention_map.produced):
                if axis is not None:
                    self._check_axis(attention_map.site, axis)

    def _check_axis(self, site: str, axis: Axis) -> None:
        """Raise an error if an axis has an unknown stream, or positions outside its tokens."""
        if axis.stream not in self.streams:
            raise UnknownNameError("stream", axis.stream, self.streams)
        stop = len(self.streams[axis.stream])
        if axis.positions and not 0 <= min(axis.positions) <= max(axis.positions) < stop:
            raise InputError(
                f"the map of {site!r} expected places within the {stop} tokens of "
                f"{axis.stream!r}, got {min(axis.positions)} to {max(axis.positions)}"
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
        """A trace of weights that were computed elsewhere, with the tokens of their rows.

        A tensor has the axes (query key), (head query key) or (layer head query key); a mapping
        has a tensor for each site. A list or tuple has a tensor for each layer, as transformers
        returns with `output_attentions=True`: (1 head query key), a batch of one. With `keys` the
        columns have tokens of their own, and the maps are cross-attention.
        """
        streams = {"tokens" if keys is None else "queries": _as_tokens(tokens)}
        if keys is not None:
            streams["keys"] = _as_tokens(keys)
        rows, columns = next(iter(streams)), list(streams)[-1]
        kind: MapKind = "encoder" if keys is None else "cross"
        maps = tuple(
            AttentionMap(
                site,
                kind,
                Axis(rows, tuple(range(len(streams[rows])))),
                Axis(columns, tuple(range(len(streams[columns])))),
                DenseWeights(site_weights),
            )
            for site, site_weights in _split_sites(weights).items()
        )
        return cls(streams, maps)

    def __getitem__(self, site: str) -> AttentionMap:
        """The map of a site; the error for an unknown one lists the sites that there are."""
        for attention_map in self.maps:
            if attention_map.site == site:
                return attention_map
        sites = [attention_map.site for attention_map in self.maps]
        raise UnknownNameError("attention site", site, sites)

    def __iter__(self) -> Iterator[AttentionMap]:
        return iter(self.maps)

    def __len__(self) -> int:
        return len(self.maps)

    def of(self, kind: MapKind) -> tuple[AttentionMap, ...]:
        """The maps of one kind: encoder, decoder or cross."""
        return tuple(attention_map for attention_map in self.maps if attention_map.kind == kind)

    def tokens(self, axis: Axis) -> Tokens:
        """The tokens that the rows or the columns of a map stand for."""
        return self.streams[axis.stream][axis.positions]

    def part(self, stream: str, start: int, stop: int) -> "Trace":
        """The same trace with only the tokens from `start` to `stop` of a stream.

        They are cut out wherever they are rows or columns; maps that have none of them are left
        out. A map that has the tokens in another order keeps the shortest run that holds them all.
        """
        if stream not in self.streams:
            raise UnknownNameError("stream", stream, self.streams)
        if not 0 <= start < stop <= len(self.streams[stream]):
            raise InputError(
                f"expected tokens within 0 to {len(self.streams[stream])} of {stream!r}, got "
                f"{start} to {stop}"
            )
        kept = []
        for attention_map in self.maps:
            rows = _run_within(attention_map.rows, stream, start, stop)
            columns = _run_within(attention_map.columns, stream, start, stop)
            if rows and columns:
                kept.append(attention_map.part(rows, columns))
        return Trace(self.streams, tuple(kept), self.gaps)

    def __repr__(self) -> str:
        streams = ", ".join(f"{name} ({len(tokens)})" for name, tokens in self.streams.items())
        heads = sum(attention_map.heads for attention_map in self.maps)
        lines = [
            f"<Trace of {streams}: {len(self)} map{'s' * (len(self) != 1)}, "
            f"{heads} head{'s' * (heads != 1)}>"
        ]
        lines += [f"  {attention_map}" for attention_map in self.maps[:_SHOWN]]
        if len(self) > _SHOWN:
            lines.append(f"  … and {len(self) - _SHOWN} more")
        lines += [f"  gap {gap.site!r}: {gap.reason}" for gap in self.gaps]
        return "\n".join(lines)


_SHOWN = 6  # maps in a repr


def _as_tokens(tokens: Sequence[str] | Tokens) -> Tokens:
    """Texts as `Tokens`; `Tokens` unchanged."""
    return tokens if isinstance(tokens, Tokens) else Tokens(tuple(map(str, tokens)))


def _run_within(axis: Axis, stream: str, start: int, stop: int) -> range:
    """The rows or columns that hold these tokens of the stream; all of them for another stream."""
    if axis.stream != stream:
        return range(len(axis))
    inside = [index for index, token in enumerate(axis.positions) if start <= token < stop]
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def _split_sites(
    weights: Array | Mapping[str, Array] | Sequence[Array | None],
) -> dict[str, Tensor]:
    """The weights (head query key) of each site, which is called "layer 0" if it has no name."""
    if isinstance(weights, Mapping):
        return {site: _add_head_axis(_as_tensor(array)) for site, array in weights.items()}
    if isinstance(weights, list | tuple):
        # transformers gives None for a layer that does not attend
        layers = ((index, layer) for index, layer in enumerate(weights) if layer is not None)
        return {f"layer {index}": _layer_weights(layer) for index, layer in layers}
    assert isinstance(weights, Tensor | np.ndarray)
    weights = _as_tensor(weights)
    if weights.dim() == 4:
        return {f"layer {index}": layer for index, layer in enumerate(weights)}
    return {"weights": _add_head_axis(weights)}


def _layer_weights(weights: Array) -> Tensor:
    """The weights (head query key) of one layer, without the batch axis of a batch of one."""
    if not isinstance(weights, Tensor | np.ndarray):
        raise InputError(
            "expected a tensor or an array of weights for each layer, got "
            f"{type(weights).__name__}; make one array of numbers with torch.tensor"
        )
    tensor = _as_tensor(weights)
    if tensor.dim() == 4 and len(tensor) != 1:
        raise InputError(
            f"expected the weights of one example, (1 head query key), got a batch of "
            f"{len(tensor)}; make a trace of each: [layer[:1] for layer in weights] is the first"
        )
    return tensor[0] if tensor.dim() == 4 else _add_head_axis(tensor)


def _as_tensor(weights: Array) -> Tensor:
    """The weights as a tensor; an error if they are not in floating point."""
    # an array is copied: torch cannot share the memory of one that is read-only or reversed
    tensor = weights if isinstance(weights, Tensor) else torch.from_numpy(np.array(weights))
    if not tensor.is_floating_point():
        raise InputError(
            f"expected weights in floating point, got {tensor.dtype}; convert them to float first"
        )
    return tensor


def _add_head_axis(weights: Tensor) -> Tensor:
    """The weights as (head query key); an error if they have another number of axes."""
    if weights.dim() not in (2, 3):
        raise ShapeError(
            "expected weights with the axes (query key), (head query key) or "
            f"(layer head query key), got {tuple(weights.shape)}"
        )
    return weights[None] if weights.dim() == 2 else weights
