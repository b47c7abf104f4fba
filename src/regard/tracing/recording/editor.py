"""Applies edits: asks a caller for the edit of each call, checks it, changes the named heads."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.kernels.observe.call import Values
from regard.tracing.readable import UNREADABLE
from regard.tracing.recording.edits import (
    AttentionCall,
    Edit,
    EditAtSites,
    EditFunction,
    check_heads,
)
from regard.tracing.recording.record import EditedWeights

Weights = Float[Tensor, "batch head query key"]
Context = Float[Tensor, "batch head query value_dim"]


@dataclass(frozen=True, eq=False)
class HeadChange:
    """An edit checked against its call: which heads change, and to which weights or context."""

    heads: list[int]
    weights: Weights | None
    context: Context | None

    def without(self, heads: set[int]) -> "HeadChange":
        """The same change of its other heads."""
        if not heads & {*self.heads}:
            return self
        left = [place for place, head in enumerate(self.heads) if head not in heads]
        parts = (None if side is None else side[:, left] for side in (self.weights, self.context))
        return HeadChange([self.heads[place] for place in left], *parts)


class Editor:
    """Asks a caller's edit functions about every call."""

    def __init__(self, edit: EditFunction | Sequence[EditFunction] | None) -> None:
        if edit is None:
            self.functions = list[EditFunction]()
        else:
            self.functions = list(edit) if isinstance(edit, Sequence) else [edit]
        wrong = next((function for function in self.functions if not callable(function)), None)
        if wrong is not None:
            raise InputError(
                "watch expected edit to be a function of an AttentionCall, or several, got "
                f"{wrong!r}"
            )

    def __bool__(self) -> bool:
        return bool(self.functions)

    def changes(self, call: AttentionCall) -> list[HeadChange]:
        """What is to be changed in a call; of two edits of one head the later function counts."""
        changes, changed_heads = list[HeadChange](), set[int]()
        for function in reversed(self.functions):
            edit = function(call)
            if edit is None:
                continue
            if not isinstance(edit, Edit):
                raise InputError(
                    f"expected an edit of {call.site!r} to be an Edit or None, got {edit!r}"
                )
            change = _check_edit(call, edit).without(changed_heads)
            changed_heads |= {*change.heads}
            changes += [change] if change.heads else []
        return changes

    def refuse_unreadable(self, site: str) -> None:
        """Raise an InputError if there are edits, for a call whose numbers cannot be read."""
        if self.functions:
            raise InputError(
                f"the attention of {site!r} cannot be edited: {UNREADABLE.partition(', so')[0]}; "
                "edit a model that runs on plain tensors"
            )

    def refuse_split_heads(self, site: str) -> None:
        """Raise an InputError if there are edits, for a call of which this process has some heads.

        Heads that an edit names, and the weights that it gives, are those of the whole model.
        """
        if self.functions:
            raise InputError(
                f"the attention of {site!r} cannot be edited: its heads are split over processes; "
                "edit a model that each process holds whole, or that FSDP2 has sharded"
            )

    def check_sites(self, sites: Iterable[str]) -> None:
        """Raise an InputError if the sites of an edit are not among those that attended."""
        for function in self.functions:
            if isinstance(function, EditAtSites):
                function.sites.check(sites)


def merge_changes(lists: Iterable[list[HeadChange]]) -> list[HeadChange]:
    """The changes of several callers to one call; of two of one head the later caller's counts."""
    merged, changed_heads = list[HeadChange](), set[int]()
    for changes in reversed([*lists]):
        kept = [change.without(changed_heads) for change in changes]
        merged += [change for change in kept if change.heads]
        changed_heads |= {head for change in kept for head in change.heads}
    return merged


def _check_edit(call: AttentionCall, edit: Edit) -> HeadChange:
    """The change that an edit makes, broadcast to the sizes of the call."""
    heads = check_heads(call, edit.heads)
    batch, _, queries, keys = call.sizes
    lead = (batch, len(heads), queries)
    context = edit.context
    if edit.weights is not None:
        return HeadChange(heads, _broadcast(call, "weights", edit.weights, (*lead, keys)), None)
    assert context is not None
    last = context.shape[-1] if context.dim() else 1
    dim = last if call.value is None else call.value.shape[3]
    return HeadChange(heads, None, _broadcast(call, "context", context, (*lead, dim)))


def _broadcast(call: AttentionCall, name: str, tensor: Tensor, sizes: tuple[int, ...]) -> Tensor:
    try:
        return tensor.expand(sizes)
    except RuntimeError as error:
        last = "key" if name == "weights" else "value_dim"
        raise ShapeError(
            f"expected the {name} of an edit of {call.site!r} to broadcast to (batch head query "
            f"{last}) = {sizes}, got {tuple(tensor.shape)}; the heads are those of the edit"
        ) from error


def change_weights(weights: Weights, changes: Iterable[HeadChange]) -> Weights:
    """The weights, with those of changed heads replaced."""
    for change in changes:
        if change.weights is not None:
            weights = _replace_heads(weights, change.heads, change.weights)
    return weights


def change_context(context: Context, value: Values, changes: Iterable[HeadChange]) -> Context:
    """The context, with that of changed heads replaced: given, or changed weights times values."""
    for change in changes:
        changed = change.context
        if change.weights is not None:
            group = context.shape[1] // value.shape[1]
            own_values = value[:, [head // group for head in change.heads]]
            changed = change.weights.to(own_values) @ own_values
        assert changed is not None
        context = _replace_heads(context, change.heads, changed)
    return context


def edited_weights(changes: Iterable[HeadChange]) -> tuple[EditedWeights, ...]:
    """The changed weights, as the record keeps them for the trace."""
    return tuple(
        EditedWeights(tuple(change.heads), change.weights.detach())
        for change in changes
        if change.weights is not None
    )


def _replace_heads(whole: Tensor, heads: list[int], part: Tensor) -> Tensor:
    index = torch.tensor(heads, device=whole.device)
    return whole.index_copy(1, index, part.to(whole))
