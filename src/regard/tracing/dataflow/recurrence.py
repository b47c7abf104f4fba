"""Loops over positions that carry a state: what each token becomes depends on the tokens before.

Mamba, RWKV, the RG-LRU and the delta rule project all tokens first and then go through them one by
one. The state is multiplied by numbers of the token that was reached:

    for t in range(7):
        state = gate[:, t] * state + x[:, t]     picked at t, times what was picked before t
        steps.append(state)
    torch.stack(steps, 1)                        a gap: tokens again, each mixed with earlier ones

A vector that was picked at a position carries a `PickedTokens` as its stage. Products of vectors
picked at different positions are mixed, and mixed vectors that become tokens again are the gap.
A linear map inside the loop, as in a recurrent network written by hand, ends the mark: recurrent
networks are no attention. A plain product of two picked tokens that is never put back is none.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from regard.tracing.dataflow.origins import Origin, PickedTokens, set_origin, tensors_in

RECURRENCE = (
    "it goes through the tokens one by one and carries a state that is multiplied by numbers of "
    "each token (a recurrence, as of state space layers and linear attention), so no weight of "
    "one token on another is ever computed"
)
PICKS = frozenset(("__getitem__", "select", "unbind", "narrow"))


def pick_tokens(source: Tensor, axis: int, origin: Origin, result: Any) -> None:
    """Mark the parts of a tensor as picked, each at one position of the axis of its tokens."""
    start, stride = source.storage_offset(), source.stride(axis) or 1
    for part in tensors_in((result,)):
        place = (part.storage_offset() - start) // stride
        picked = PickedTokens((place, place))
        set_origin(part, Origin(origin.stream, origin.axis, origin.layout, None, picked))


def join_picked(first: Origin, second: Origin, *, multiplies: bool) -> Origin | None:
    """The origin of two tensors together, at least one of which was picked at a position.

    None if the other one has an axis of tokens, so that it is no loop over positions.
    """
    one, other = first.stage, second.stage
    if isinstance(one, PickedTokens) and isinstance(other, PickedTokens):
        span = (min(one.span[0], other.span[0]), max(one.span[1], other.span[1]))
        is_mixed = one.is_mixed or other.is_mixed or (multiplies and one.span != other.span)
        return replace(first, stage=PickedTokens(span, is_mixed))
    picked, rest = (first, second) if isinstance(one, PickedTokens) else (second, first)
    is_plain = rest.pair is None and rest.stage is None and not rest.axis
    return picked if is_plain else None


def without_pick(origin: Origin) -> Origin:
    """The origin without the mark of a picked token."""
    return replace(origin, stage=None) if isinstance(origin.stage, PickedTokens) else origin


def is_recurrent(value: Any) -> bool:
    """True if a vector was made of tokens of several positions, multiplied with one another."""
    stage = getattr(getattr(value, "_regard_origin", None), "stage", None)
    return isinstance(stage, PickedTokens) and stage.is_mixed
