"""The watcher: a torch function mode that sees every torch function and records attention calls."""

import functools
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.kernels.observe.taps import Tapped, Unmapped, tap_of
from regard.tracing.assembly.decoding_runs import DecodingRuns
from regard.tracing.dataflow.checkpoint_recompute import (
    detach_call,
    is_backward,
    must_stay_beside,
)
from regard.tracing.dataflow.origins import ManualWeights, StreamNames, origin_of, tensors_in
from regard.tracing.dataflow.rule_table import rule_of
from regard.tracing.dataflow.tracker import OriginTracker, ValuesOnAxis
from regard.tracing.mask_reading.caller_masks import CallerMasks
from regard.tracing.mask_reading.lazy import LazyMask
from regard.tracing.readable import UNREADABLE, are_readable, is_tracing
from regard.tracing.recording.editor import HeadChange
from regard.tracing.recording.manual_product import ManualProducts
from regard.tracing.recording.manual_softmax import add_values_as_keys, describe_manual_call
from regard.tracing.recording.observe_call import (
    call_for_edit,
    describe_call,
    observe_call,
    observe_finished_call,
    place_after_cache,
)
from regard.tracing.recording.options import WatchOptions
from regard.tracing.recording.record import CallRecord
from regard.tracing.sites import ModelInputs, Sites, running


class PlannedCall(NamedTuple):
    """A call of a tapped function as one watcher is going to run it.

    `record` is None if the watcher neither records nor edits the call.
    """

    tapped: Tapped
    options: WatchOptions
    is_chosen: bool
    record: CallRecord | None
    changes: list[HeadChange]


class Watcher(TorchFunctionMode):
    """Records every attention call; results of the model stay what they were, except for edits.

    `runs` are the records, and `attended` every site that attended, chosen by the caller or not.
    """

    def __init__(self, sites: Sites, options: WatchOptions) -> None:
        super().__init__()
        self.sites, self.options = sites, options
        self.runs = DecodingRuns()
        self.attended = dict[str, None]()
        self.tracker = OriginTracker(sites, self._record_manual)
        self.products = ManualProducts(sites, options)
        self.caller_masks = CallerMasks()
        self._second_axis = 0  # size of the second axis of the model's first input
        self._windows: int | None = None  # of torch's own multi-head attention, while it runs
        self.is_stopped = self.is_passing = False
        sites.on_begin.append(self._note_inputs)
        sites.on_symbolic.append(self._pass_symbolic_run)

    def __torch_function__(
        self, function: Any, subclasses: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function, follow its data flow, and record it if it attends.

        This runs for every torch function of the model, so cheap answers come first. `subclasses`
        are the classes among the arguments that say themselves what torch functions do to them.
        """
        kwargs = kwargs or {}
        rule = rule_of(function)
        if rule[0] == "nothing":  # sizes, comparisons and the like
            return function(*args, **kwargs)
        describer = tap_of(function)
        if describer is not None and subclasses:
            result = run_by_subclass(self, function, subclasses, args, kwargs)
            if result is not NotImplemented:
                return result
        if describer is not None and not is_backward():
            if not are_readable(tensors_in((*args, *kwargs.values()))):
                return self._run_unmapped(UNREADABLE, function, args, kwargs)
            tapped = describer(*args, **kwargs)
            if isinstance(tapped, Unmapped):
                return self._run_unmapped(tapped.reason, function, args, kwargs)
            if tapped is not None:
                tapped = self.tracker.name_streams(tapped, (*args, *kwargs.values()))
                planned = self.plan_tapped(tapped)
                return self.run_planned(planned, lambda: function(*args, **kwargs))
        if function is F.multi_head_attention_forward:
            return run_multi_head(self, [self], args, kwargs)
        if rule[0] in ("product", "linear") and not self.products.is_idle:
            result = self.products.run(rule[1], function, args, kwargs)
        else:
            result = function(*args, **kwargs)
        self.tracker.follow(rule, args, kwargs, result)
        return result

    def _run_unmapped(self, reason: str, function: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Run a function that attends as if nobody watched, and note the gap."""
        result = function(*args, **kwargs)
        self.note_unmapped(reason)
        self.tracker.follow(("other", rule_of(function)[1]), args, kwargs, result)
        return result

    def note_unmapped(self, reason: str) -> None:
        """Note a gap where a function attends now that cannot be mapped."""
        site = self.sites.here
        self.attended[site] = None
        self.options.editor.refuse_unreadable(site)
        self.tracker.note_gap(reason)

    def _pass_symbolic_run(self) -> None:
        """Let the run of a model with symbolic sizes pass unseen, and note it as a gap."""
        self.note_unmapped(UNREADABLE)
        self.is_passing = True
        self.__torch_function__ = types.MethodType(_run_symbolic, self)  # type: ignore[method-assign]

    def resume(self) -> None:
        """See functions again, after a run with symbolic sizes."""
        self.is_passing = False
        vars(self).pop("__torch_function__", None)

    def stop(self) -> None:
        """Let functions pass unseen from now on, where torch's stack cannot be reached to leave it.

        The method is replaced on the instance, so that a watcher that runs need not ask.
        """
        self.is_stopped = True
        self.__torch_function__ = types.MethodType(_run_unseen, self)  # type: ignore[method-assign]

    def plan_tapped(self, tapped: Tapped) -> PlannedCall:
        """Describe a call of a tapped function, and ask the caller for edits of it."""
        options = self.options
        if must_stay_beside() and not options.editor:
            options, tapped = replace(options, beside=True), detach_call(tapped)
        site = self.sites.here
        self.attended[site] = None
        streams = (origin_of(tapped.query).stream, origin_of(tapped.key).stream)
        is_chosen = options.sites.includes(site)
        is_empty = 0 in tapped.query.shape[:2]  # no example, or no head: there is nothing to see
        if is_empty or not (is_chosen or options.editor):
            return PlannedCall(tapped, options, is_chosen, None, [])
        if streams[0] != streams[1] and tapped.query.shape[2] < tapped.key.shape[2]:
            tapped, streams = self._continue_cache(site, tapped, streams)
        windows = self._windows or self.sites.windows(len(tapped.query))
        record = self._note_padding(describe_call(site, tapped, streams, windows))
        editor = options.editor
        changes = editor.changes(call_for_edit(record, tapped)) if editor else []
        return PlannedCall(tapped, options, is_chosen, record, changes)

    def _continue_cache(
        self, site: str, tapped: Tapped, streams: StreamNames
    ) -> tuple[Tapped, StreamNames]:
        """The call as self-attention if its keys are those of an earlier call and newer ones."""
        cached = self.runs.find_cached_keys(site, streams, tapped.key, tapped.query.shape[2])
        placed = None if cached is None else place_after_cache(tapped, cached.earlier_keys)
        if cached is None or placed is None:
            return tapped, streams
        return placed, (cached.stream, cached.stream)

    def run_planned(self, planned: PlannedCall, run_original: Callable[[], Any]) -> Any:
        """Run a tapped function; where the caller wants it, observed, edited and recorded."""
        record, changes = planned.record, planned.changes
        if record is None or not (planned.is_chosen or changes):
            result = run_original()
        else:
            result, record = observe_call(
                record, planned.tapped, run_original, planned.options, changes
            )
        self._keep(planned, record, result)
        return result

    def note_finished(self, planned: PlannedCall, result: Any) -> None:
        """Record a tapped function that another watcher has run, with the planned changes."""
        record = planned.record
        if record is not None and planned.is_chosen:
            record = observe_finished_call(
                record, planned.tapped, result, planned.options, planned.changes
            )
        self._keep(planned, record, result)

    def _keep(self, planned: PlannedCall, record: CallRecord | None, result: Any) -> None:
        """Keep the record of a call that has run, and note the stream of its result."""
        if record is not None and record.projection is not None:
            self.products.projections.add(record.projection)
        if record is not None and planned.is_chosen:
            self.runs.add(record)
        self.tracker.follow_tapped(planned.tapped, result)

    def _record_manual(self, manual: ManualWeights, values: ValuesOnAxis | None) -> None:
        """Record a hand-written call that the data flow has recognised."""
        if not are_readable((manual.weights,)):
            self.note_unmapped(UNREADABLE)
            return
        if not manual.weights.numel():
            self.attended[self.sites.here] = None
            return
        record = describe_manual_call(self.sites, manual)
        if values is not None:
            record = add_values_as_keys(record, *values)
        streams = self.tracker.stream_names(record.site, manual.pair, record.sizes[2:])
        record = replace(
            record,
            query_stream=streams[0],
            key_stream=streams[1],
            windows=self._windows or record.windows,
        )
        self.attended[record.site] = None
        record = self.products.complete(self._note_padding(record))
        if self.options.sites.includes(record.site):
            self.runs.add(record)

    def begin_multi_head(self, query: Tensor, heads: int) -> None:
        """Note what torch's own multi-head attention folds together while it runs."""
        self.products.edited_weights = None
        batch = query.shape[1] if query.dim() == 3 else 1
        examples = self._count_examples(batch)
        self.sites.batch, self._windows = examples, batch // examples
        self.sites.heads = heads  # inside, weights have their heads folded into the batch

    def end_multi_head(self) -> None:
        """Forget it again."""
        self.sites.heads, self._windows = 0, None

    def _note_padding(self, record: CallRecord) -> CallRecord:
        """The record with the caller's word on which of its keys are padding."""
        if record.windows != 1 or not self.caller_masks:
            return record
        real_tokens = self.caller_masks.real_tokens(
            record.sizes[0], record.key_count, in_decoder=record.kind == "decoder"
        )
        return record if real_tokens is None else replace(record, real_tokens=real_tokens)

    def _note_inputs(self, inputs: ModelInputs) -> None:
        """Remember masks over tokens, and the second axis of the first input, perhaps the batch."""
        self.runs.begin_model_call()
        self.caller_masks.note_inputs(inputs)
        first = next((tensor for tensor in inputs.values() if tensor.dim() > 1), None)
        self._second_axis = 0 if first is None else first.shape[1]

    def _count_examples(self, batch: int) -> int:
        """How many examples a batch of this many rows holds, where the batch may come second."""
        known, module = self.sites.batch, next(running(), None)
        second = self._second_axis == batch and not getattr(module, "batch_first", True)
        return batch if second or not known or batch % known else known


def _run_unseen(
    watcher: Watcher, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """Run a torch function for a watcher that was stopped."""
    return function(*args, **kwargs or {})


def _run_symbolic(
    watcher: Watcher, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """Run a torch function in a run with symbolic sizes; after its end, as ever."""
    if is_tracing():
        return function(*args, **kwargs or {})
    watcher.resume()
    return watcher.__torch_function__(function, types, args, kwargs)


def run_by_subclass(
    mode: TorchFunctionMode,
    function: Any,
    subclasses: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Let a tensor subclass among the arguments run a function that attends.

    `torch.nn.attention.bias.CausalBias`, for instance, holds no numbers: only its class knows which
    mask it stands for, and calls the function again with plain tensors. `mode`, which torch has
    called and disables meanwhile, sees that call. NotImplemented if no subclass takes the call.
    """
    if not torch._C._is_torch_function_enabled():  # the subclass calls it for its own tensor
        return NotImplemented
    for kind in subclasses:
        if issubclass(kind, LazyMask) or not issubclass(kind, Tensor):
            continue  # a mask of ours is described by its facts
        with mode:
            result = kind.__torch_function__(function, subclasses, args, kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def run_multi_head(
    mode: TorchFunctionMode,
    watchers: Sequence[Watcher],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run torch's own multi-head attention, and return the edited weights if it was edited.

    `mode` is what torch has called: it disables a mode inside itself, and the calls inside are to
    be seen.
    """
    query = args[0] if args else kwargs["query"]
    heads = args[4] if len(args) > 4 else kwargs["num_heads"]
    for watcher in watchers:
        watcher.begin_multi_head(query, heads)
    try:
        with mode:
            context, weights = _multi_head_function()(*args, **kwargs)
    finally:
        for watcher in watchers:
            watcher.end_multi_head()
    all_edited = (watcher.products.edited_weights for watcher in watchers)
    edited = next((edited for edited in all_edited if edited is not None), None)
    if weights is not None and edited is not None:
        averaged = weights.numel() < edited.numel()
        weights = (edited.mean(dim=1) if averaged else edited).reshape(weights.shape)
    return context, weights


@functools.cache
def _multi_head_function() -> Callable[..., Any]:
    """F.multi_head_attention_forward without its check for modes, which would call us again."""
    function = F.multi_head_attention_forward
    scope = function.__globals__ | {"has_torch_function": lambda operands: False}
    copy = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
