"""Edits put to use: asked for each call, checked, and laid over its weights and its context."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.kernels.observe.call import Values
from regard.tracing.recording.edits import (
    AttentionCall,
    Edit,
    EditAtSites,
    EditFunction,
    check_heads,
)
from regard.tracing.recording.options import Edited

Weights = Float[Tensor, "batch head query key"]
Context = Float[Tensor, "batch head query value_dim"]


@dataclass(frozen=True, eq=False)
class Change:
    """An edit that fits its call: which heads, and what with."""

    heads: list[int]
    weights: Weights | None
    context: Context | None

    def without(self, heads: set[int]) -> "Change":
        """The same for its other heads."""
        if not heads & {*self.heads}:
            return self
        left = [place for place, head in enumerate(self.heads) if head not in heads]
        parts = (None if each is None else each[:, left] for each in (self.weights, self.context))
        return Change([self.heads[place] for place in left], *parts)


class Editor:
    """Asks a caller's functions about every call, in their order."""

    def __init__(self, edit: EditFunction | Sequence[EditFunction] | None) -> None:
        if edit is None:
            self.functions = list[EditFunction]()
        else:
            self.functions = list(edit) if isinstance(edit, Sequence) else [edit]
        wrong = next((each for each in self.functions if not callable(each)), None)
        if wrong is not None:
            raise InputError(
                "watch expected edit to be a function of an AttentionCall, or several, got "
                f"{wrong!r}"
            )

    def __bool__(self) -> bool:
        return bool(self.functions)

    def changes(self, call: AttentionCall) -> list[Change]:
        """What is to be changed in a call; of two that change a head the later one counts."""
        found, taken = list[Change](), set[int]()
        for function in reversed(self.functions):
            edit = function(call)
            if edit is None:
                continue
            if not isinstance(edit, Edit):
                raise InputError(
                    f"expected an edit of {call.site!r} to be an Edit or None, got {edit!r}"
                )
            change = _fitted(call, edit).without(taken)
            taken |= {*change.heads}
            found += [change] if change.heads else []
        return found

    def check(self, sites: Iterable[str]) -> None:
        """Raise an InputError if the sites of an edit are not among those that were seen."""
        for each in self.functions:
            if isinstance(each, EditAtSites):
                each.sites.check(sites)


def _fitted(call: AttentionCall, edit: Edit) -> Change:
    heads = check_heads(call, edit.heads)
    batch, _, queries, keys = call.sizes
    lead = (batch, len(heads), queries)
    context = edit.context
    if edit.weights is not None:
        return Change(heads, _broadcast(call, "weights", edit.weights, (*lead, keys)), None)
    assert context is not None
    last = context.shape[-1] if context.dim() else 1
    dim = last if call.value is None else call.value.shape[3]
    return Change(heads, None, _broadcast(call, "context", context, (*lead, dim)))


def _broadcast(call: AttentionCall, name: str, given: Tensor, sizes: tuple[int, ...]) -> Tensor:
    try:
        return given.expand(sizes)
    except RuntimeError as error:
        last = "key" if name == "weights" else "value_dim"
        raise ShapeError(
            f"expected the {name} of an edit of {call.site!r} to broadcast to (batch head query "
            f"{last}) = {sizes}, got {tuple(given.shape)}; the heads are those of the edit"
        ) from error


def used(weights: Weights, changes: Iterable[Change]) -> Weights:
    """The weights with those of the changes in the places of their heads."""
    for each in changes:
        if each.weights is not None:
            weights = _replaced(weights, each.heads, each.weights)
    return weights


def given(context: Context, value: Values, changes: Iterable[Change]) -> Context:
    """The context with that of changed heads: given, or values mixed by changed weights."""
    for each in changes:
        found = each.context
        if each.weights is not None:
            group = context.shape[1] // value.shape[1]
            own = value[:, [head // group for head in each.heads]]
            found = each.weights.to(own) @ own
        assert found is not None
        context = _replaced(context, each.heads, found)
    return context


def noted(changes: Iterable[Change]) -> tuple[Edited, ...]:
    """The weights that were changed, as the trace will show them."""
    return tuple(
        Edited(tuple(each.heads), each.weights.detach())
        for each in changes
        if each.weights is not None
    )


def _replaced(whole: Tensor, heads: list[int], part: Tensor) -> Tensor:
    index = torch.tensor(heads, device=whole.device)
    return whole.index_copy(1, index, part.to(whole))
