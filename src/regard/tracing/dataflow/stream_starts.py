"""Where streams of tokens begin: embeddings, convolutions over pictures and sounds, inputs.

A stream is named after the module that embeds. A module may embed several things:

    self.words(ids) + self.positions(places)   one stream: what is summed or joined belongs together
    self.words(source), self.others(target)    two streams, "Model" and "Model embedding others"
    self.words(source), self.words(target)     two streams, if both are inputs of the model

The first embedding of a module has the plain name. The others have names that tell whose siblings
they are, so that a sum of siblings is the plain stream again (`softmax.combined_origin`).
Positions are no tokens: they belong to what they are added to, whichever comes first.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.tracing.dataflow.edges import find_nodes
from regard.tracing.dataflow.example_facts import ExampleFacts
from regard.tracing.dataflow.input_ranges import note_input
from regard.tracing.dataflow.origins import (
    POSITIONS,
    SIBLING,
    SINGLE,
    UNKNOWN,
    Origin,
    origin_of,
    set_origin,
    stream_origin,
)
from regard.tracing.dataflow.propagation import (
    Args,
    Kwargs,
    is_pointwise,
    map_channels,
    pool,
)
from regard.tracing.readable import are_readable
from regard.tracing.sites import ModelInputs, Sites

Rule = Callable[[str, Args, Kwargs, Any], None]


class StreamStarts:
    """The rules of functions that may begin a stream.

    `grids` are the rows and columns of the patches with which a picture's stream began.
    """

    def __init__(self, sites: Sites, facts: ExampleFacts) -> None:
        self._sites, self._facts = sites, facts
        self.grids: dict[str, tuple[int, int]] = {}
        self._first_embeddings = dict[str, str]()  # by the module that embeds
        self._first_inputs = dict[str, str]()  # the input that an embedding embedded first
        self._batches = set[int]()  # inputs with a row of ids for each of several examples
        self._input_names = dict[int, str]()  # of the ids that the model was called with
        self.rules: dict[str, Rule] = {"embed": self._embed, "conv": self._conv, "pool": self._pool}

    def begin(self, inputs: ModelInputs) -> None:
        """Begin a stream with each floating-point input; ids begin theirs when embedded."""
        self._input_names = {
            _storage(tensor): name
            for name, tensor in inputs.items()
            if not tensor.dtype.is_floating_point and type(tensor) is Tensor
        }
        self._batches = {
            _storage(tensor)
            for tensor in inputs.values()
            if tensor.dim() == 2 and len(tensor) == self._sites.batch > 1
        }
        nodes = find_nodes(inputs)
        if nodes is not None and origin_of(inputs[nodes]) is UNKNOWN:
            set_origin(inputs[nodes], stream_origin(nodes, -2, "input"))
            note_input(inputs[nodes])
        for name, tensor in inputs.items():
            is_new = origin_of(tensor) is UNKNOWN
            if tensor.dtype.is_floating_point and tensor.dim() > 2 and is_new:
                axis = -2 if tensor.dim() == 3 else None
                set_origin(tensor, stream_origin(name, axis, "input"))
                note_input(tensor)

    def _embed(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """Begin the stream of the module that embeds; one id for each example is a state."""
        ids = args[0] if args else kwargs["input"]
        single = ids.dim() == 0 or (ids.dim() == 1 and len(ids) == self._sites.batch)
        stream = self._name_embedded(ids)
        if ids.dim() == 1 and not single and _storage(ids) in self._batches:
            stream += SINGLE  # the ids of one example, out of those that the model was called with
        set_origin(
            result, stream_origin(stream, None, "state") if single else stream_origin(stream, -2)
        )

    def _name_embedded(self, ids: Tensor) -> str:
        """The stream of embedded ids: that of the module, or of a further embedding in it."""
        owner, embedding = self._sites.caller, self._sites.here
        if self._first_embeddings.get(owner) != embedding and self._are_positions(ids):
            return owner + SIBLING + embedding.rpartition(".")[2] + POSITIONS
        if self._first_embeddings.setdefault(owner, embedding) != embedding:
            return owner + SIBLING + embedding.rpartition(".")[2]
        source = self._input_names.get(_storage(ids))
        if source is None or self._first_inputs.setdefault(owner, source) == source:
            return owner
        return owner + SIBLING + source

    def _are_positions(self, ids: Tensor) -> bool:
        """True for ids that count the tokens of a text, the same for all examples or for each."""
        source = self._input_names.get(_storage(ids))
        if source is not None:  # the words of a text may happen to be 0, 1, 2 ...
            return "position" in source
        batch = self._sites.batch
        if not ids.dim() or (ids.dim() == 1 and len(ids) == batch):
            return False  # one id for each example
        if batch > 1 and (ids.dim() == 1 or len(ids) == 1):
            return True
        if ids.shape[-1] < 2 or not are_readable((ids,)):
            return False
        return bool((ids[..., 1:] - ids[..., :-1] == 1).all())

    def _conv(self, name: str, args: Args, kwargs: Kwargs, result: Tensor) -> None:
        """Begin the stream of a picture or a sound, or keep the one that the input has."""
        origin = origin_of(args[0])
        if is_pointwise(args, kwargs):
            mapped = map_channels(origin, args[0], result)
            if mapped is not None:
                set_origin(result, mapped)
                return
        if origin.pair is not None:
            pool(name, args, kwargs, result)
            return
        begins = origin.stream is None or origin.layout == "input"
        stream = self._sites.caller if begins else origin.stream
        if begins and stream is not None:
            self._facts.note_start(stream, args[0])
        if name == "conv1d":
            set_origin(result, stream_origin(stream, -1))
        elif name == "conv2d":
            is_picture = begins or origin.layout == "picture"
            set_origin(result, stream_origin(stream, -1, "picture" if is_picture else "grid"))
            self._note_grid(origin_of(result), result)
        else:
            set_origin(result, stream_origin(stream))

    def _pool(self, name: str, args: Args, kwargs: Kwargs, result: Any) -> None:
        """Pool, and note the new size of a picture's grid."""
        pool(name, args, kwargs, result)
        if isinstance(result, Tensor) and result.dim() > 2:
            self._note_grid(origin_of(result), result)

    def _note_grid(self, origin: Origin, result: Tensor) -> None:
        if origin.layout == "picture" and origin.stream is not None:
            self.grids[origin.stream] = (result.shape[-2], result.shape[-1])


def _storage(tensor: Tensor) -> int:
    """The identity of the memory that a tensor is a view of; 0 for those that may have none."""
    if type(tensor) is not Tensor or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return 0
    return int(tensor.untyped_storage()._cdata)
