"""What a run tells of its examples: where each row of an inner batch comes from and goes to.

A model that reads texts with pictures runs its picture encoder on the pictures of all texts at
once, as one batch or packed into one row. Neither says whose picture is whose. The data flow does,
at two places: where pixels enter, and where features are written into the texts.

Example: a text with three pictures and one with one picture, 16 features for each picture.

    conv2d(pixels (4, 3, 32, 32))         ->  starts["vision_tower.embeddings"] has 4 rows
    masked_scatter(embedded, mask, features)
                                          ->  a merge of (48, 16) features into the two texts

`assembly.inner_parts` concludes that the first three rows belong to the first text.

Before a model generates, its picture encoder may be called by itself; the call that reads the texts
has the merges then, and no pixels. Each text may have become several beams in between, with a copy
of its features for each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.tracing.dataflow import rearrangement
from regard.tracing.dataflow.origins import origin_of, plain_stream
from regard.tracing.dataflow.propagation import Args, Kwargs, elementwise
from regard.tracing.readable import are_readable

__all__ = ["ExampleFacts", "ModelCall", "StreamStart"]


@dataclass(frozen=True)
class StreamStart:
    """The rows with which a stream began.

    `first_axis` is, for each row, where it lies on the first axis of the caller's tensor, and
    `length` the size of that axis; None and 0 where the rows were not found in any tensor.
    """

    rows: int
    first_axis: tuple[int, ...] | None = None
    length: int = 0


@dataclass
class ModelCall:
    """One call of the model: how many examples it has, and what happened to their parts.

    `starts` are the rows of each stream where it began; `merges` the number of features that were
    written into each example, by the stream that they come from; `lists` the lengths of tensors
    that were concatenated, which may be the features of single pictures; `splits` the lengths into
    which tensors were split, which may be the tiles of single pictures; `joined` the streams that
    were concatenated with others. `has_vectors` is True if the call has inputs of its own that are
    no ids. `copies` is how many rows after one another have copies of the same features, which an
    earlier call has made once; `has_earlier_parts` marks a call joined with such earlier ones.
    `packed` are the numbers of patches of each picture, if the call has the patches of several
    pictures in one list; its rows are the examples then.
    """

    examples: int
    has_vectors: bool = False
    copies: int = 1
    has_earlier_parts: bool = False
    packed: tuple[int, ...] = ()
    starts: dict[str, StreamStart] = field(default_factory=dict)
    merges: list[tuple[str | None, tuple[int, ...]]] = field(default_factory=list)
    lists: list[tuple[int, ...]] = field(default_factory=list)
    splits: list[tuple[int, ...]] = field(default_factory=list)
    joined: set[str] = field(default_factory=set)


class ExampleFacts:
    """The facts of each call of a model, in the order of the calls."""

    def __init__(self) -> None:
        self.calls: list[ModelCall] = []
        self.has_parts = False  # the running call has several examples, and pictures or sounds
        self._inputs: Mapping[str, Tensor] = {}
        self._earlier_inputs: list[Tensor] = []  # of the calls just before that merged nothing
        self._pairs = 0  # of whole numbers among the inputs, which may be the edges of a graph
        self._merged = set[tuple[str | None, int]]()  # the places of merges in the running call

    def begin(self, inputs: Mapping[str, Tensor], examples: int) -> None:
        """Note that the model is called with these tensors, for this many examples."""
        if not self.calls or self.calls[-1].merges or not self._inputs:
            self._earlier_inputs = []
        self._earlier_inputs += self._inputs.values()
        self._merged.clear()
        self._inputs = {
            name: tensor
            for name, tensor in inputs.items()
            if tensor.dim() > 1 and tensor.dtype.is_floating_point
        }
        self.calls.append(ModelCall(examples, bool(self._inputs)))
        if any(tensor.dim() == 2 and len(tensor) == examples for tensor in self._inputs.values()):
            self.calls[-1].packed = _find_packed(inputs, examples)
        self.has_parts = (examples > 1 and bool(self._inputs)) or self._follows_parts
        self._pairs = sum(
            tensor.dim() == 2 and len(tensor) == 2 and not tensor.dtype.is_floating_point
            for tensor in inputs.values()
        )
        for name, tensor in self._inputs.items():
            if tensor.dim() == 3:  # a stream from its beginning
                rows = len(tensor)
                self.calls[-1].starts[name] = StreamStart(rows, tuple(range(rows)), rows)

    @property
    def _follows_parts(self) -> bool:
        """True if the running call has only ids, and those just before had pictures or sounds."""
        return not self._inputs and bool(self._earlier_inputs)

    def count_graph(self) -> None:
        """Note that the running call has one graph, if nodes or ends of edges were its examples."""
        call = self.calls[-1]
        nodes = any(
            tensor.dim() == 2 and len(tensor) == call.examples for tensor in self._inputs.values()
        )
        if nodes or (self._pairs and call.examples == 2):
            call.examples = 1

    def note_start(self, stream: str, source: Tensor) -> None:
        """Note that a stream begins with a tensor whose first axis is its batch."""
        if not self.calls or stream in self.calls[-1].starts or source.dim() < 3:
            return
        call, rows = self.calls[-1], len(source)
        start = StreamStart(rows)
        if call.examples > 1 and rows != call.examples and are_readable((source,)):
            for tensor in self._inputs.values():
                places = _find_rows(source, tensor)
                if places is not None:
                    start = StreamStart(rows, places, len(tensor))
                    break
        call.starts[stream] = start

    def note_merge(self, source: Any, target: Any, mask: Any) -> None:
        """Note that features of a stream are written where a mask over tokens says so."""
        stream, examples = plain_stream(origin_of(source).stream), self.calls[-1].examples
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or target.dim() < 3:
            return
        if mask.dim() < 2 or len(mask) != examples:
            return
        if are_readable((mask,)):
            tokens = mask.flatten(2).any(2) if mask.dim() > 2 else mask
            place = (stream, hash(tokens.cpu().numpy().tobytes()))
            if place not in self._merged:  # deeper layers may add more features at the same places
                self._merged.add(place)
                counts = tuple(tokens.sum(1).tolist())
                self.calls[-1].merges.append((stream, counts))
                if self._follows_parts and isinstance(source, Tensor):
                    self.calls[-1].copies = _count_copies(source, counts, self._earlier_inputs)

    def join(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Tensors concatenated: perhaps the features of single pictures, or pictures with text."""
        rearrangement.join(name, args, kwargs, result)
        if not self.has_parts or not isinstance(result, Tensor):
            return
        call, parts = self.calls[-1], args[0] if args else kwargs.get("tensors", ())
        if result.dim() == 2:
            call.lists.append(tuple(len(part) for part in parts))
        elif len(result) == call.examples:
            streams = {
                stream
                for part in parts
                if (stream := plain_stream(origin_of(part).stream)) is not None
            }
            if len(streams) > 1:
                call.joined |= streams

    def split(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """A tensor split: perhaps the tiles of single pictures."""
        rearrangement.layout(name, args, kwargs, result)
        if self.has_parts and args and isinstance(args[0], Tensor) and args[0].dim() > 2:
            lengths = tuple(len(part) for part in result)
            if sum(lengths) == len(args[0]):  # split on the first axis
                self.calls[-1].splits.append(lengths)

    def assign(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Writing into a tensor: perhaps features of pictures into the places of a text."""
        if self.has_parts and len(args) > 2:
            index = args[1][0] if isinstance(args[1], tuple) and len(args[1]) == 1 else args[1]
            self.note_merge(args[2], args[0], index)
        rearrangement.assign(name, args, kwargs, result)

    def merge(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Features of pictures written into the places of a text that a mask tells."""
        mask, source = (*args[1:], *kwargs.values())[:2]
        if self.has_parts:
            self.note_merge(source, args[0], mask)
        elementwise(name, args, kwargs, result)


def _find_packed(inputs: Mapping[str, Tensor], patches: int) -> tuple[int, ...]:
    """The numbers of patches of each picture, by the grids or the ends that a call has; or none.

    Grids (2, 4, 4), (1, 6, 4) are 32 patches and 24; the same as ends is 0, 32, 56.
    """
    for tensor in inputs.values():
        is_grid = tensor.dim() == 2 and tensor.shape[1] in (2, 3)
        if tensor.dtype not in (torch.int32, torch.int64) or not are_readable((tensor,)):
            continue
        if is_grid and len(tensor) > 1:
            counts = tensor.prod(1).tolist()
        elif tensor.dim() == 1 and len(tensor) > 2 and not tensor[0]:
            counts = tensor.diff().tolist()
        else:
            continue
        if sum(counts) == patches > len(counts) and min(counts) > 0:
            return tuple(counts)
    return ()


def _count_copies(features: Tensor, counts: tuple[int, ...], inputs: list[Tensor]) -> int:
    """How many rows after one another have copies of features that were made once, as beams have.

    `counts` are the features of each row, and `inputs` what they were made from. If the caller has
    given the same picture several times, it is there as often.
    """
    examples, total = len(counts), sum(counts)
    if features.dim() < 2:  # numbers of features rather than features
        return 1
    features = features.detach().flatten(0, -2)
    if not total or len(features) != total or not are_readable((features, *inputs)):
        return 1
    rows = features.split(list(counts))
    for size in range(examples, 1, -1):
        groups = [rows[start : start + size] for start in range(0, examples, size)]
        if examples % size or not all(
            torch.equal(row, group[0]) for group in groups for row in group
        ):
            continue
        given = min(_count_repeats(tensor) for tensor in inputs)
        return size // given if size % given == 0 else 1
    return 1


def _count_repeats(rows: Tensor) -> int:
    """How often each row of a tensor is in it at least."""
    counts = torch.unique(rows.detach().flatten(1), dim=0, return_counts=True)[1]
    return int(counts.min()) if len(counts) else 1


def _find_rows(rows: Tensor, tensor: Tensor) -> tuple[int, ...] | None:
    """Where on the first axis of a tensor each of the rows lies; None if one is not in it.

    The rows are some of the tensor's, in their order: a model may leave out pictures that are only
    padding.
    """
    count = rows.dim() - 1
    if tensor.dim() <= count or tensor.shape[-count:] != rows.shape[1:]:
        return None
    candidates = tensor.detach().flatten(0, tensor.dim() - count - 1).to(rows)
    for_each = len(candidates) // len(tensor)
    if candidates.shape == rows.shape:
        is_same = torch.equal(candidates, rows)
        return tuple(place // for_each for place in range(len(rows))) if is_same else None
    places, place = list[int](), 0
    for row in rows.detach():
        while place < len(candidates) and not torch.equal(candidates[place], row):
            place += 1
        if place == len(candidates):
            return None
        places.append(place // for_each)
        place += 1
    return tuple(places)
