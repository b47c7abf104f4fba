"""The watcher: a torch function mode that sees every torch function and records attention calls."""

import types
from dataclasses import replace
from typing import Any, NamedTuple

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.kernels.observe.taps import Describer, Tapped, Unmapped, tap_of
from regard.tracing.assembly.decoding_runs import DecodingRuns
from regard.tracing.assembly.decoding_steps import DecodingSteps
from regard.tracing.dataflow.checkpoint_recompute import (
    detach_call,
    is_backward,
    must_stay_beside,
)
from regard.tracing.dataflow.loops import streams_of
from regard.tracing.dataflow.origins import ManualWeights, StreamNames, tensors_in
from regard.tracing.dataflow.rule_table import Rule, rule_of
from regard.tracing.dataflow.tracker import OriginTracker, ValuesOnAxis
from regard.tracing.dtensors import local_part
from regard.tracing.failures import OriginalRun, are_raised, describe_failure
from regard.tracing.head_shards import (
    OTHER_AXIS,
    HeadShards,
    describe_local,
    localise_weights,
)
from regard.tracing.inner_calls import run_by_subclass, run_multi_head, run_symbolic, run_unseen
from regard.tracing.mask_reading.caller_masks import CallerMasks
from regard.tracing.readable import UNREADABLE, are_readable
from regard.tracing.recording.editor import HeadChange
from regard.tracing.recording.kept_sides import KeptSides, may_write
from regard.tracing.recording.manual_product import (
    DescribedProduct,
    ManualProducts,
    run_described,
)
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

UNSEEN_THREAD = (
    "it ran in a thread that was there before the model was called, and only threads that the "
    "model starts are watched; start them inside the call"
)

UNFINISHED_THREAD = (
    "a thread that it started was still running when the block ended, so what came later was not "
    "seen; wait for the thread inside the block"
)


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
        self.kept_sides = KeptSides()
        self.steps = DecodingSteps(lambda: sites.here, options, self.note_failure)
        self.attended = dict[str, None]()
        self.tracker = OriginTracker(sites, self._record_manual)
        self.products = ManualProducts(sites, options)
        self.caller_masks = CallerMasks()
        self.head_shards = HeadShards()
        self._second_axis = 0  # size of the second axis of the model's first input
        self._windows: int | None = None  # of torch's own multi-head attention, while it runs
        self.is_stopped = self.is_passing = False
        self.unfinished_threads = 0  # that the model has started
        sites.on_begin.append(self._note_inputs)
        sites.on_symbolic.append(self._pass_symbolic_run)
        sites.on_failure.append(self.note_failure)
        sites.on_unseen_thread.append(self._note_unseen_thread)

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
        if describer is not None:
            result = self._run_attending(describer, function, subclasses, args, kwargs)
            if result is not NotImplemented:
                return result
        if function is F.multi_head_attention_forward:
            return run_multi_head(self, [self], args, kwargs)
        if may_write(rule[1], args, kwargs):
            self.save_sides(args, kwargs)
        if rule[0] in ("product", "linear") and not self.products.is_idle:
            described = self.describe_product(rule, args)
            result = run_described(described, function, args, kwargs)
        else:
            result = function(*args, **kwargs)
        try:  # as `follow` does, without its frame
            self.tracker.follow(rule, args, kwargs, result)
        except Exception as error:
            self.note_failure(error)
        return result

    def _run_attending(
        self,
        describer: Describer,
        function: Any,
        subclasses: Any,
        args: tuple[Any, ...],
        kwargs: Any,
    ) -> Any:
        """Run a function that has a tap; NotImplemented if this call of it does not attend."""
        if subclasses:
            result = run_by_subclass(self, function, subclasses, args, kwargs)
            if result is not NotImplemented:
                return result
        if is_backward():
            return NotImplemented
        if not self.caller_masks:
            result = self.steps.run(self.runs, function, args, kwargs)
            if result is not NotImplemented:
                return result
        planned = self._plan(describer, args, kwargs)
        if isinstance(planned, Unmapped):
            return self._run_unmapped(planned.reason, function, args, kwargs)
        if planned is None:
            return NotImplemented
        return self.run_planned(planned, OriginalRun(function, args, kwargs))

    def save_sides(self, args: tuple[Any, ...], kwargs: Any) -> None:
        """Copy what records keep of tensors that a function is about to write to."""
        try:
            self.kept_sides.save(args, kwargs)
        except Exception as error:
            self.note_failure(error)

    def follow(self, rule: Rule, args: tuple[Any, ...], kwargs: Any, result: Any) -> None:
        """Follow the data flow of a function that has run."""
        try:
            self.tracker.follow(rule, args, kwargs, result)
        except Exception as error:
            self.note_failure(error)

    def describe_product(self, rule: Rule, args: tuple[Any, ...]) -> list[DescribedProduct]:
        """A product that is about to run, if one factor is weights; otherwise nothing."""
        try:
            recent = self.products.describe(rule[1], args)
        except Exception as error:
            self.note_failure(error)
            return []
        return [] if recent is None else [(self.products, recent)]

    def _plan(
        self, describer: Describer, args: tuple[Any, ...], kwargs: Any
    ) -> PlannedCall | Unmapped | None:
        """How a call of a tapped function is going to run; None if it does not attend."""
        operands = (*args, *kwargs.values())
        try:
            if not are_readable(tensors_in(operands)):
                return Unmapped(UNREADABLE)
            tapped = describe_local(describer, args, kwargs)
            if not isinstance(tapped, Tapped):
                return tapped
            return self.plan_tapped(self.tracker.name_streams(tapped, operands))
        except Exception as error:
            return Unmapped(self.explain_failure(error))

    def explain_failure(self, error: Exception) -> str:
        """The reason of the gap where regard itself failed; raises errors that are to be seen."""
        if are_raised() or self.options.editor:
            raise error
        return describe_failure(error)

    def note_failure(self, error: Exception) -> None:
        """Note a gap where regard itself failed, and let the model run on."""
        self.note_unmapped(self.explain_failure(error))

    def _run_unmapped(self, reason: str, function: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Run a function that attends as if nobody watched, and note the gap."""
        result = function(*args, **kwargs)
        self.note_unmapped(reason)
        self.follow(("other", rule_of(function)[1]), args, kwargs, result)
        return result

    def note_unmapped(self, reason: str) -> None:
        """Note a gap where a function attends now that cannot be mapped."""
        site = self.sites.here
        self.attended[site] = None
        self.options.editor.refuse_unreadable(site)
        self.tracker.note_gap(reason)

    def _note_unseen_thread(self, site: str) -> None:
        """Note a gap where the model runs a module in a thread that is not watched."""
        self.attended[site] = None
        self.tracker.note_gap(UNSEEN_THREAD, site)

    def _pass_symbolic_run(self) -> None:
        """Let the run of a model with symbolic sizes pass unseen, and note it as a gap."""
        self.note_unmapped(UNREADABLE)
        self.is_passing = True
        self.__torch_function__ = types.MethodType(run_symbolic, self)  # type: ignore[method-assign]

    def resume(self) -> None:
        """See functions again, after a run with symbolic sizes."""
        self.is_passing = False
        vars(self).pop("__torch_function__", None)

    def stop(self) -> None:
        """Let functions pass unseen from now on, where torch's stack cannot be reached to leave it.

        The method is replaced on the instance, so that a watcher that runs need not ask.
        """
        if self.unfinished_threads and not self.is_stopped:
            self.note_unmapped(UNFINISHED_THREAD)
        self.is_stopped = True
        self.__torch_function__ = types.MethodType(run_unseen, self)  # type: ignore[method-assign]

    def plan_tapped(self, tapped: Tapped) -> PlannedCall:
        """Describe a call of a tapped function, and ask the caller for edits of it."""
        options = self.options
        if must_stay_beside() and not options.editor:
            options, tapped = replace(options, beside=True), detach_call(tapped)
        site = self.sites.here
        self.attended[site] = None
        streams = streams_of(tapped.query, tapped.key)
        is_chosen = options.sites.includes(site)
        is_empty = 0 in tapped.query.shape[:2]  # no example, or no head: there is nothing to see
        if is_empty or not (is_chosen or options.editor):
            return PlannedCall(tapped, options, is_chosen, None, [])
        if streams[0] != streams[1] and tapped.query.shape[2] < tapped.key.shape[2]:
            tapped, streams = self._continue_cache(site, tapped, streams)
        windows = self._windows or self.sites.windows(len(tapped.query))
        call = describe_call(site, tapped, streams, windows)
        record = self._note_shard(self._note_padding(call))
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

    def run_planned(self, planned: PlannedCall, run_original: OriginalRun) -> Any:
        """Run a tapped function; where the caller wants it, observed, edited and recorded."""
        record, changes = planned.record, planned.changes
        try:
            if record is None or not (planned.is_chosen or changes):
                result = run_original()
            else:
                result, record = observe_call(
                    record, planned.tapped, run_original, planned.options, changes
                )
            self._keep(planned, record, result)
        except Exception as error:
            if run_original.error is not None:
                raise
            self.note_failure(error)
            return run_original()
        return result

    def note_finished(self, planned: PlannedCall, result: Any) -> None:
        """Record a tapped function that another watcher has run, with the planned changes."""
        record = planned.record
        try:
            if record is not None and planned.is_chosen:
                record = observe_finished_call(
                    record, planned.tapped, result, planned.options, planned.changes
                )
            self._keep(planned, record, result)
        except Exception as error:
            self.note_failure(error)

    def _keep(self, planned: PlannedCall, record: CallRecord | None, result: Any) -> None:
        """Keep the record of a call that has run, and note the stream of its result."""
        if record is not None and record.projection is not None:
            self.products.projections.add(record.projection)
        if record is not None and planned.is_chosen:
            self.kept_sides.add(record.query, record.key)
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
        if (local := localise_weights(manual)) is None:
            self.note_unmapped(OTHER_AXIS)
            return
        record = self._note_shard(describe_manual_call(self.sites, local))
        if values is not None:
            record = add_values_as_keys(record, local_part(values[0]), values[1])
        streams = self.tracker.stream_names(record.site, manual.pair, record.sizes[2:])
        record = replace(
            record,
            query_stream=streams[0],
            key_stream=streams[1],
            windows=self._windows or record.windows,
        )
        self.attended[record.site] = None
        assert record.weights is not None
        weights = record.weights.detach()  # a tensor of our own, whose memory may be exchanged
        record = self.products.complete(self._note_padding(record.with_fields(weights=weights)))
        if self.options.sites.includes(record.site):
            assert record.weights is not None
            self.kept_sides.add(record.weights)
            self.runs.add(record)

    @property
    def complete_runs(self) -> list[list[CallRecord]]:
        """The records of all sites but those that compute only a part of their context so."""
        dropped = self.tracker.dropped_sites
        return [run for run in self.runs.runs if run[0].site not in dropped]

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

    def _note_shard(self, record: CallRecord) -> CallRecord:
        """The record with the processes that have further heads of its call."""
        shard = self.head_shards.of_call()
        if shard is None:
            return record
        self.options.editor.refuse_split_heads(record.site)
        return replace(record, shard=shard)

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
