"""DTensors, which hold a part of a tensor that is split over processes, and their local parts.

torch.distributed.tensor is never imported here: what is not loaded cannot have made a DTensor.
"""

import sys
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

_DTENSORS = "torch.distributed.tensor"
_PLAIN_TYPES = frozenset((Tensor, torch.nn.Parameter, type(None), bool, int, float))
_COLLECTIVES = "torch.distributed._functional_collectives"


def has_dtensors(values: Collection[Any]) -> bool:
    """True if there is a DTensor, or the unfinished result of a collective, among the values."""
    if _PLAIN_TYPES.issuperset(map(type, values)):
        return False
    dtensors, collectives = sys.modules.get(_DTENSORS), sys.modules.get(_COLLECTIVES)
    if dtensors is None or collectives is None:
        return False
    kinds = (dtensors.DTensor, collectives.AsyncCollectiveTensor)
    return any(isinstance(value, kinds) for value in values)


def local_part(value: Any) -> Any:
    """The part of a DTensor that this process has, without gradient; anything else as it is."""
    if not has_dtensors((value,)):
        return value
    local = _stored_part(value)
    return local.wait() if hasattr(local, "wait") else local


def pairs_of_dtensors(values: Iterable[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Each DTensor among values, and the tensor in which it stores its local part."""
    for value in values:
        if has_dtensors((value,)) and (local := _stored_part(value)) is not value:
            yield value, local


def _stored_part(value: Any) -> Any:
    """The tensor in which a DTensor stores its local part, of which it may still be waiting."""
    with torch.no_grad():  # without gradients it is the tensor itself, and no view of it
        return value.to_local() if hasattr(value, "to_local") else value


def split_axes(tensor: Any) -> Iterator[tuple[int, int]]:
    """The dimensions of its mesh over which a DTensor is split, each with the axis that is split.

    Nothing for another tensor, and for a dimension of one process.
    """
    if isinstance(tensor, Tensor) and has_dtensors((tensor,)):
        for dimension, placement in enumerate(getattr(tensor, "placements", ())):
            if placement.is_shard() and tensor.device_mesh.size(dimension) > 1:  # type: ignore[attr-defined]
                yield dimension, placement.dim
