"""Runs one call of a tapped function: described, observed by a kernel, edited, recorded."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.observe import Observation, ObserveOptions, Scoring
from regard.kernels.observe.call import Call
from regard.kernels.observe.full_weights import weigh
from regard.kernels.observe.observed_attention import observe_scoring
from regard.kernels.observe.taps import Tapped
from regard.masks import Area, Mask, everything, tensor_bias
from regard.tracing.dataflow.origins import StreamNames, tensors_in
from regard.tracing.dataflow.output_projection import OutputProjection
from regard.tracing.mask_reading.dense import describe_dense_mask
from regard.tracing.recording.editor import (
    HeadChange,
    change_context,
    change_weights,
    edited_weights,
)
from regard.tracing.recording.edits import AttentionCall
from regard.tracing.recording.kept_sides import own_copy
from regard.tracing.recording.options import WatchOptions
from regard.tracing.recording.pending import MOST_SCORES, PendingObservation
from regard.tracing.recording.record import CallRecord, GradientSlot

# for calls that are edited but not recorded
CONTEXT_ONLY = ObserveOptions(statistics=False, atlas=0)

_BLANK = CallRecord("", None, None, torch.empty(0, 0, 0, 0), torch.empty(0, 0, 0, 0))


def describe_call(site: str, tapped: Tapped, streams: StreamNames, windows: int) -> CallRecord:
    """The record of a call that is about to run: its description, and nothing observed yet."""
    scoring = tapped.scoring
    return _BLANK.with_fields(
        site=site,
        query_stream=streams[0],
        key_stream=streams[1],
        query=tapped.query,
        key=tapped.key,
        scoring=_place_queries(tapped, streams),
        weights=tapped.weights,
        mask=tapped.mask if scoring is None else scoring.mask,
        key_count=tapped.key.shape[2],
        windows=windows,
    )


def _place_queries(tapped: Tapped, streams: StreamNames) -> Scoring | None:
    """The scoring, with the queries at the end of the keys if a cache holds earlier ones."""
    scoring = tapped.scoring
    queries, keys = tapped.query.shape[2], tapped.key.shape[2]
    unmasked = scoring is not None and scoring.mask is None
    if scoring is not None and unmasked and streams[0] == streams[1] and keys > queries:
        return replace(scoring, offset=keys - queries)
    return scoring


def place_after_cache(tapped: Tapped, earlier_keys: int) -> Tapped | None:
    """The call with its queries behind the keys of earlier steps, the rest of a cache cut off.

    None if the queries see that rest: then it is no room for keys to come.
    """
    scoring, queries, keys = tapped.scoring, tapped.query.shape[2], tapped.key.shape[2]
    written = earlier_keys + queries
    if scoring is None:
        return tapped if written == keys else None
    if written == keys:
        is_placed = scoring.offset or (scoring.mask or everything()).split()[0].right == 0
        offset = scoring.offset if is_placed else earlier_keys
        return replace(tapped, scoring=replace(scoring, offset=offset))
    area = Area(range(queries), range(keys), scoring.offset, tapped.query.device)
    visible = (scoring.mask or everything()).cut(area)
    if bool(visible[..., written:].any()):
        return None
    bias = scoring.bias
    return replace(
        tapped,
        key=tapped.key[:, :, :written],
        value=tapped.value[:, :, :written],
        scoring=replace(
            scoring,
            mask=describe_dense_mask(visible[..., :written]),
            bias=None if bias is None else tensor_bias(bias.cut(area)[..., :written]),
            offset=earlier_keys,
        ),
    )


def call_for_edit(record: CallRecord, tapped: Tapped) -> AttentionCall:
    """The described call as an edit function sees it."""
    mask, offset = tapped.mask, tapped.offset
    if record.scoring is not None:
        mask, offset = record.scoring.mask, record.scoring.offset
    return AttentionCall(
        record.site,
        record.sizes,
        tapped.query,
        tapped.key,
        tapped.value,
        record.scoring,
        partial(_full_weights, record, tapped),
        partial(visible_keys, mask, record.sizes, offset, tapped.query.device),
    )


def visible_keys(
    mask: Mask | None, sizes: tuple[int, int, int, int], offset: int, device: torch.device
) -> Tensor:
    """Which keys each query may see, as a dense mask."""
    area = Area(range(sizes[2]), range(sizes[3]), offset, device)
    return (mask or everything()).cut(area)


def observe_call(
    record: CallRecord,
    tapped: Tapped,
    run_original: Callable[[], Any],
    options: WatchOptions,
    changes: list[HeadChange],
) -> tuple[Any, CallRecord]:
    """Run a described call, and return its result and the record with what was observed.

    The kernel computes context and statistics in one pass. The model's own function runs instead
    where its result cannot be reproduced: with dropout, where a tap says so, or when the caller
    asked for `beside`. It also runs where the call is short, and is measured when that is read.
    """
    if not changes and _can_wait(record, tapped, options):
        return _measure_later(record, tapped, run_original, options)
    original_runs = tapped.dropout > 0 or ((options.beside or tapped.runs_itself) and not changes)
    observation = _observe(record, tapped, options, needs_context=not original_runs)
    context: Tensor | None = None
    if changes and tapped.dropout:
        weights = F.dropout(_full_weights(record, tapped), tapped.dropout)
        values = _values_of_heads(tapped)
        context = weights.to(values) @ values
    elif tapped.weights is not None and not tapped.dropout and (changes or not tapped.runs_itself):
        context = tapped.weights @ _values_of_heads(tapped)
    elif observation is not None:
        context = _fill_levelled_rows(observation.context, tapped)
    if context is not None:
        context = change_context(context, tapped.value, changes)
    result = run_original() if context is None else tapped.finish(context)
    extras = _find_extras(tapped, options, changes, context, result)
    return result, _add_observation(record, tapped, observation, options, extras)


def observe_finished_call(
    record: CallRecord,
    tapped: Tapped,
    result: Any,
    options: WatchOptions,
    changes: list[HeadChange],
) -> CallRecord:
    """The record of a described call that has run already, with these changes in its result."""
    observation = _observe(record, tapped, options, needs_context=False)
    extras = _find_extras(tapped, options, changes, None, result)
    return _add_observation(record, tapped, observation, options, extras)


def _can_wait(record: CallRecord, tapped: Tapped, options: WatchOptions) -> bool:
    """True if a call is short, and what its statistics follow from is kept anyway."""
    keep = options.keep
    if not tapped.is_quick or record.scoring is None or keep.half or keep.weights == "summary":
        return False
    batch, heads, queries, keys = record.sizes
    return batch * heads * queries * keys <= MOST_SCORES


def _measure_later(
    record: CallRecord, tapped: Tapped, run_original: Callable[[], Any], options: WatchOptions
) -> tuple[Any, CallRecord]:
    """Run a call as the model runs it, and note what the kernel has to measure when it is read."""
    assert record.scoring is not None
    query, key, keep = own_copy(tapped.query), own_copy(tapped.key), options.keep
    # values play no part without a context, so keys stand in for them and they can be freed
    call = Call(query, key, key, record.scoring)
    result = run_original()
    extras = keep.values or keep.gradients or keep.outputs
    return result, record.with_fields(
        **(_find_extras(tapped, options, [], None, result) if extras else {}),
        query=query,
        key=key,
        scoring=call.scoring,
        observed=PendingObservation(call, options.without_context),
        heads=options.sites.heads(record.site),
    )


def _observe(
    record: CallRecord, tapped: Tapped, options: WatchOptions, *, needs_context: bool
) -> Observation | None:
    """What the kernel measures of the call; None for a mechanism that only gives its weights."""
    if record.scoring is None:
        return None
    numbers = options.observe if options.sites.includes(record.site) else CONTEXT_ONLY
    if numbers.context is not needs_context:
        numbers = replace(numbers, context=needs_context)
    call = Call(tapped.query, tapped.key, tapped.value, record.scoring)
    return observe_scoring(call, numbers)


def _fill_levelled_rows(context: Tensor | None, tapped: Tapped) -> Tensor | None:
    """The context with the mean of all values in rows that weigh all keys equally."""
    rows = tapped.levelled_rows
    if context is None or rows is None:
        return context
    mean = _values_of_heads(tapped).mean(dim=2, keepdim=True)
    return torch.where(rows[:, None, :, None], mean.to(context), context)


def _full_weights(record: CallRecord, tapped: Tapped) -> Tensor:
    """The weights of the call, dense."""
    if tapped.weights is not None:
        return tapped.weights
    assert record.scoring is not None
    return weigh(tapped.query, tapped.key, record.scoring)


def _values_of_heads(tapped: Tapped) -> Tensor:
    """The values with one head for each query head, repeated where groups share them."""
    value = tapped.value
    groups = tapped.query.shape[1] // value.shape[1]
    return value if groups == 1 else value.repeat_interleave(groups, dim=1)


def _add_observation(
    record: CallRecord,
    tapped: Tapped,
    observation: Observation | None,
    options: WatchOptions,
    extras: dict[str, Any],
) -> CallRecord:
    """The record with the observation, with queries and keys as they are kept, and extras.

    A record has many fields, so it is made once and not once for each of these.
    """
    query = options.keep.round(own_copy(tapped.query))
    exact = query.dtype == tapped.query.dtype
    if observation is not None:
        lse = observation.lse if exact else observation.lse.float()
        numbers = (observation.statistics, observation.top, observation.atlas)
        observation = Observation(None, lse, *numbers, observation.scoring)
    if record.scoring is None:
        extras["edits"] = ()  # changed weights of a call that is all weights are in `weights`
    return record.with_fields(
        **extras,
        query=query,
        key=options.keep.round(own_copy(tapped.key)),
        scoring=None if observation is None else observation.scoring,
        observed=observation,
        heads=options.sites.heads(record.site),
        exact=exact,
    )


def _find_extras(
    tapped: Tapped,
    options: WatchOptions,
    changes: list[HeadChange],
    context: Tensor | None,
    result: Any,
) -> dict[str, Any]:
    """Weights, values, gradient, projection and edits, as far as the caller keeps them."""
    keep, weights = options.keep, tapped.weights
    slot = GradientSlot() if keep.gradients else None
    if slot is not None:
        _await_gradient(slot, tapped, context, result)
    return {
        "weights": None if weights is None else change_weights(weights, changes).detach(),
        "value": tapped.value.detach() if keep.values else None,
        "gradient_slot": slot,
        "edits": edited_weights(changes) if changes else (),
        "projection": _await_projection(tapped, context, result) if keep.outputs else None,
    }


def _await_projection(
    tapped: Tapped, context: Tensor | None, result: Any
) -> OutputProjection | None:
    """A projection that waits with the context for the matrix that it goes into."""
    first = next(iter(tensors_in([result])), None)
    if context is None and first is not None:
        context = _undo_finish(tapped, first.detach())
    return None if context is None else OutputProjection(context.detach())


def _await_gradient(
    slot: GradientSlot, tapped: Tapped, context: Tensor | None, result: Any
) -> None:
    """Let the slot take the gradient of the context, or that of the function's own result."""
    if context is not None:
        if context.requires_grad:
            context.register_hook(slot.add)
        return
    first = next(iter(tensors_in([result])), None)
    if first is not None and first.requires_grad:
        first.register_hook(lambda gradient: slot.add(_undo_finish(tapped, gradient)))


def _undo_finish(tapped: Tapped, result: Tensor) -> Tensor:
    """A tensor in the layout of the function's result, back in the layout of its context.

    `finish` only moves numbers, so its transpose, which autograd knows, moves them back.
    """
    shape = (*tapped.query.shape[:3], tapped.value.shape[3])
    with torch.enable_grad():
        context = result.new_zeros(shape).requires_grad_()
        finished = next(iter(tensors_in([tapped.finish(context)])))
    return torch.autograd.grad(finished, context, result)[0]
