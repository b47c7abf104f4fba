"""Keeps the origins that several watchers of one thread write on the same tensors apart.

A watcher names streams by the module paths of its own model, and knows only the tensors that were
made while it was open, so two watchers may hold different origins of one tensor. Everything else in
this package reads and writes a single attribute, `_regard_origin`. That attribute belongs to the
layer of the watcher that was opened first. Every later watcher has a layer with an attribute of its
own, which is exchanged with `_regard_origin` while that watcher follows a call, for the tensors of
the call only. A single watcher never exchanges anything.

    >>> import torch
    >>> from regard.tracing.dataflow.origin_layers import OriginLayer
    >>> from regard.tracing.dataflow.origins import origin_of, set_origin, stream_origin
    >>> tensor, first, second = torch.zeros(5, 3), OriginLayer(), OriginLayer()
    >>> set_origin(tensor, stream_origin("encoder.embed", -2))
    >>> with second.active([tensor]):
    ...     set_origin(tensor, stream_origin("embed", -2))
    >>> origin_of(tensor).stream
    'encoder.embed'
    >>> first.close()  # the attribute passes on to the next layer
    >>> origin_of(tensor).stream
    'embed'
    >>> second.close()
    >>> vars(tensor)
    {}
"""

import itertools
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor

from regard.tracing.dataflow.origins import (
    ATTRIBUTE,
    share_tracked_tensors,
    tracked_tensors,
)

_numbers = itertools.count()


class OriginLayer:
    """The origins that one watcher writes; open from construction until `close`.

    A layer belongs to the thread that made it, and may be closed by another one.
    """

    def __init__(self) -> None:
        self._attribute = f"{ATTRIBUTE}_{next(_numbers)}"
        self._layers = _thread.layers
        self._layers.add(self)

    @property
    def is_first(self) -> bool:
        """True if `_regard_origin` belongs to this layer while no other one is active."""
        return self._layers.open[0] is self

    @contextmanager
    def active(self, tensors: Iterable[Tensor]) -> Iterator[None]:
        """Let the origins of these tensors be those of this layer while the block runs."""
        layers = self._layers
        if layers.active is self:
            yield
            return
        outside, layers.active, tracked = layers.active, self, len(layers.tensors)
        layers.tracked.readers += 1
        swapped = {id(tensor): (tensor, vars(tensor).get(ATTRIBUTE)) for tensor in tensors}
        for tensor, _ in swapped.values():
            _set(tensor, ATTRIBUTE, vars(tensor).pop(self._attribute, None))
        try:
            yield
        finally:
            # tensors on which the block wrote an origin for the first time
            for reference in layers.tensors[tracked:]:
                if (written := reference()) is not None:
                    swapped.setdefault(id(written), (written, None))
            for tensor, origin in swapped.values():
                _set(tensor, self._attribute, vars(tensor).get(ATTRIBUTE))
                _set(tensor, ATTRIBUTE, origin)
            layers.active = outside
            layers.tracked.readers -= 1

    def close(self) -> None:
        """Remove the origins of this layer from all tensors."""
        layers = self._layers
        layers.open.remove(self)
        own = ATTRIBUTE if layers.active is self else self._attribute
        if layers.active is self:
            layers.active = next(iter(layers.open), None)
        for reference in layers.tensors.copy():
            tensor = reference()
            if tensor is not None:
                vars(tensor).pop(own, None)
        if own is ATTRIBUTE and layers.active is not None:
            layers.active._take_attribute()
        if not layers.open:
            layers.tensors.clear()
            layers.tracked.alive = 0

    def _take_attribute(self) -> None:
        """Move the origins of this layer into the attribute that it has become the owner of."""
        for reference in self._layers.tensors.copy():
            tensor = reference()
            if tensor is not None and (origin := vars(tensor).pop(self._attribute, None)):
                vars(tensor)[ATTRIBUTE] = origin


class OpenLayers:
    """The open layers of a thread; `active` is the one that `_regard_origin` belongs to."""

    def __init__(self) -> None:
        self.open: list[OriginLayer] = []
        self.active: OriginLayer | None = None
        self.tracked = tracked_tensors()
        self.tensors: list[weakref.ref[Tensor]] = self.tracked.tensors

    def add(self, layer: OriginLayer) -> None:
        """Open a layer; the first one gets the attribute."""
        self.open.append(layer)
        self.active = self.active or layer


class _ThreadLayers(threading.local):
    """The layers of this thread."""

    def __init__(self) -> None:
        self.layers = OpenLayers()


_thread = _ThreadLayers()


def layers_of_thread() -> OpenLayers:
    """The layers of this thread."""
    return _thread.layers


@contextmanager
def share_layers(layers: OpenLayers) -> Iterator[None]:
    """Let this thread write its origins with the layers of another one, while the block runs."""
    before, _thread.layers = _thread.layers, layers
    try:
        with share_tracked_tensors(layers.tensors):
            yield
    finally:
        _thread.layers = before


def _set(tensor: Tensor, name: str, value: object) -> None:
    """Set an attribute of a tensor; None removes it."""
    if value is None:
        vars(tensor).pop(name, None)
    else:
        vars(tensor)[name] = value
