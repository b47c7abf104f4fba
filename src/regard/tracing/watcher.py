"""The watcher: a torch function mode that sees every torch function and records attention calls."""

import functools
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from regard.kernels.observe.taps import Tapped, tap_of
from regard.tracing.assembly.decoding_runs import DecodingRuns
from regard.tracing.dataflow.checkpoint_recompute import (
    detach_call,
    is_backward,
    is_checkpointed,
)
from regard.tracing.dataflow.origins import (
    ManualWeights,
    Origin,
    origin_of,
    set_origin,
    tensors_in,
)
from regard.tracing.dataflow.rule_table import rule_of
from regard.tracing.dataflow.tracker import OriginTracker, ValuesOnAxis
from regard.tracing.fast_paths import keep_encoder_padding_empty, run_compiled_eagerly
from regard.tracing.huggingface.registries import watch_registries
from regard.tracing.mask_reading.caller_masks import CallerMasks
from regard.tracing.mask_reading.lazy import LazyMask
from regard.tracing.recording.manual_product import ManualProducts
from regard.tracing.recording.manual_softmax import add_values_as_keys, describe_manual_call
from regard.tracing.recording.observe_call import call_for_edit, describe_call, observe_call
from regard.tracing.recording.options import WatchOptions
from regard.tracing.recording.record import CallRecord
from regard.tracing.sites import ModelInputs, Sites, running


@contextmanager
def watching(model: nn.Module, options: WatchOptions) -> Iterator["Watcher"]:
    """The watcher of a model while the block runs; its records are complete afterwards."""
    sites = Sites(model)
    watcher = Watcher(sites, options)
    with ExitStack() as stack:
        stack.enter_context(run_compiled_eagerly())
        stack.enter_context(watch_registries())
        stack.enter_context(keep_encoder_padding_empty(sites.encoders))
        stack.enter_context(sites)
        stack.enter_context(watcher)
        yield watcher


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
        sites.on_begin.append(self._note_inputs)

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
        if describer is not None and any(issubclass(kind, Tensor) for kind in subclasses):
            result = self._run_by_subclass(function, subclasses, args, kwargs)
            if result is not NotImplemented:
                return result
        if describer is not None and not is_backward():
            tapped = describer(*args, **kwargs)
            if tapped is not None:
                tapped = self.tracker.name_streams(tapped, (*args, *kwargs.values()))
                result = self._run_tapped(tapped, lambda: function(*args, **kwargs))
                self.tracker.follow_tapped(tapped, result)
                return result
        if function is F.multi_head_attention_forward:
            return self._run_multi_head(args, kwargs)
        if rule[0] in ("product", "linear") and not self.products.is_idle:
            result = self.products.run(rule[1], function, args, kwargs)
        else:
            result = function(*args, **kwargs)
        self.tracker.follow(rule, args, kwargs, result)
        return result

    def _run_by_subclass(
        self, function: Any, subclasses: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Let a tensor subclass among the arguments run a function that attends.

        `torch.nn.attention.bias.CausalBias`, for instance, holds no numbers: only its class knows
        which mask it stands for, and calls the function again with plain tensors. That call is
        watched. NotImplemented if no subclass takes the call.
        """
        if not torch._C._is_torch_function_enabled():  # the subclass calls it for its own tensor
            return NotImplemented
        for kind in subclasses:
            if issubclass(kind, LazyMask):  # ours, which its description stands for
                continue
            with self:  # torch disables a mode inside itself; the calls inside are to be seen
                result = kind.__torch_function__(function, subclasses, args, kwargs)
            if result is not NotImplemented:
                return result
        return NotImplemented

    def _run_tapped(self, tapped: Tapped, run_original: Callable[[], Any]) -> Any:
        """Run a tapped function; where the caller wants it, observed, edited and recorded."""
        options = self.options
        if is_checkpointed() and not options.editor:
            # torch compares the tensors that this run saves with those of an unwatched one
            options, tapped = replace(options, beside=True), detach_call(tapped)
        site = self.sites.here
        self.attended[site] = None
        streams = (origin_of(tapped.query).stream, origin_of(tapped.key).stream)
        chosen = options.sites.includes(site)
        if not chosen and not options.editor:
            result = run_original()
        else:
            windows = self._windows or self.sites.windows(len(tapped.query))
            record = self._note_padding(describe_call(site, tapped, streams, windows))
            editor = options.editor
            changes = editor.changes(call_for_edit(record, tapped)) if editor else []
            if chosen or changes:
                result, record = observe_call(record, tapped, run_original, options, changes)
                if record.projection is not None:
                    self.products.projections.add(record.projection)
            else:
                result = run_original()
            if chosen:
                self.runs.add(record)
        for tensor in tensors_in([result]):
            set_origin(tensor, Origin(streams[0]))
        return result

    def _record_manual(self, manual: ManualWeights, values: ValuesOnAxis | None) -> None:
        """Record a hand-written call that the data flow has recognised."""
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

    def _run_multi_head(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run torch's own multi-head attention, and return the edited weights if it was edited."""
        self.products.edited_weights = None
        query = args[0] if args else kwargs["query"]
        batch = query.shape[1] if query.dim() == 3 else 1
        examples = self._count_examples(batch)
        self.sites.batch, self._windows = examples, batch // examples
        # inside, weights have their heads folded into the batch
        self.sites.heads = args[4] if len(args) > 4 else kwargs["num_heads"]
        try:
            with self:  # torch disables a mode inside itself; the calls inside are to be seen
                context, weights = _multi_head_function()(*args, **kwargs)
        finally:
            self.sites.heads, self._windows = 0, None
        edited = self.products.edited_weights
        if weights is not None and edited is not None:
            averaged = weights.numel() < edited.numel()
            weights = (edited.mean(dim=1) if averaged else edited).reshape(weights.shape)
        return context, weights

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
        self.caller_masks.note_inputs(inputs)
        first = next((tensor for tensor in inputs.values() if tensor.dim() > 1), None)
        self._second_axis = 0 if first is None else first.shape[1]

    def _count_examples(self, batch: int) -> int:
        """How many examples a batch of this many rows holds, where the batch may come second."""
        known, module = self.sites.batch, next(running(), None)
        second = self._second_axis == batch and not getattr(module, "batch_first", True)
        return batch if second or not known or batch % known else known


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
