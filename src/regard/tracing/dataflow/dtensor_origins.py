"""A DTensor and its local part, which models make of one another unseen, have one origin."""

from collections.abc import Iterable
from typing import Any

from regard.tracing.dataflow.origins import UNKNOWN, origin_of, set_origin
from regard.tracing.dtensors import pairs_of_dtensors


def take_origins_of_parts(values: Iterable[Any]) -> None:
    """Write the origins of local parts on the DTensors among values that were made of them."""
    for dtensor, local in pairs_of_dtensors(values):
        origin = origin_of(local)
        if origin.stream is not None:
            set_origin(dtensor, origin)


def give_origins_to_parts(values: Iterable[Any]) -> None:
    """Write the origins of DTensors on their local parts."""
    for dtensor, local in pairs_of_dtensors(values):
        origin = origin_of(dtensor)
        if origin is not UNKNOWN:
            set_origin(local, origin)
