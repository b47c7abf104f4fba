"""The watchers that are open in a thread: entered and left in any order, they all see every call.

torch calls the function mode on top of a stack, and pops the top when any block is left. So one
watcher alone is that mode itself. As soon as a second one is entered in the same thread, a
`WatcherGroup` takes its place on the stack and hands every call to all of them:

    entered         on torch's stack
    -               -
    A               A
    A, B            WatcherGroup([A, B])
    B               B                        A was left first
    -               -

A call runs once, whatever the number of watchers, with the edits of all of them. Each watcher
records it with its own options, under the names of its own model (`dataflow/origin_layers.py`).
"""

import threading
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import nn
from torch.overrides import (
    TorchFunctionMode,
    _get_current_function_mode_stack,
    _pop_mode,
    _push_mode,
)

from regard.errors import InputError
from regard.kernels.observe.taps import Describer, Tapped, Unmapped, tap_of
from regard.tracing.child_threads import follow_into_threads
from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.origin_layers import OpenLayers, layers_of_thread, share_layers
from regard.tracing.dataflow.origins import tensors_in
from regard.tracing.dataflow.rule_table import Rule, rule_of
from regard.tracing.failures import OriginalRun
from regard.tracing.fast_outputs import return_fast_outputs
from regard.tracing.fast_paths import keep_encoder_padding_empty, run_compiled_eagerly
from regard.tracing.head_shards import describe_local
from regard.tracing.huggingface.registries import watch_registries
from regard.tracing.inner_calls import run_by_subclass, run_multi_head
from regard.tracing.readable import UNREADABLE, are_readable, is_tracing
from regard.tracing.recording.editor import merge_changes
from regard.tracing.recording.kept_sides import may_write
from regard.tracing.recording.manual_product import run_described
from regard.tracing.recording.options import WatchOptions
from regard.tracing.sites import Sites, run_for
from regard.tracing.watcher import PlannedCall, Watcher


@contextmanager
def watching(model: nn.Module, options: WatchOptions) -> Iterator[Watcher]:
    """The watcher of a model while the block runs; its records are complete afterwards."""
    thread, sites = threading.get_ident(), Sites(model)
    with ExitStack() as stack:
        stack.enter_context(run_compiled_eagerly())
        stack.enter_context(watch_registries())
        stack.enter_context(follow_into_threads(_carry_watchers))
        stack.enter_context(keep_encoder_padding_empty(sites.encoders))
        if options.beside:
            stack.enter_context(return_fast_outputs(model, _only_watchers))
        watcher = Watcher(sites, options)
        stack.callback(_leave, watcher)
        _enter(watcher)
        stack.enter_context(sites)
        yield watcher
    if threading.get_ident() != thread:
        raise InputError(
            "expected a block of `watch` to be left in the thread that entered it, got another "
            "thread, so calls may be missing and there are no traces; enter and leave it in one "
            "thread"
        )


def _carry_watchers() -> AbstractContextManager[None] | None:
    """The context in which a thread that a watched model starts now has the same watchers.

    None if no watched model is running: then the thread is no part of what is watched.
    """
    modes = reversed(_get_current_function_mode_stack())
    mode = next((mode for mode in modes if _is_watching(mode)), None)
    if mode is None:
        return None
    watchers = mode.watchers if isinstance(mode, WatcherGroup) else [mode]
    running = [watcher for watcher in watchers if watcher.sites.is_running]
    if not running:
        return None
    share_between_threads(mode)
    for watcher in running:
        watcher.unfinished_threads += 1
    return _watch_thread(mode, running, layers_of_thread())


@contextmanager
def _watch_thread(
    mode: TorchFunctionMode, watchers: Sequence[Watcher], layers: OpenLayers
) -> Iterator[None]:
    """Let the watchers of another thread see what runs in this one."""
    models = [watcher.sites for watcher in watchers]
    with run_for(models, models[0].batch), share_layers(layers), watch_registries():
        _push_mode(mode)
        try:
            yield
        finally:
            _replace_mode(mode, None)
            for watcher in watchers:
                watcher.unfinished_threads -= 1


class WatcherGroup(TorchFunctionMode):
    """Stands on torch's stack for several watchers of a thread, in the order they were entered."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        super().__init__()
        self.watchers = list(watchers)

    def __torch_function__(
        self, function: Any, subclasses: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function once; every watcher follows its data flow and records what attends."""
        kwargs = kwargs or {}
        rule = rule_of(function)
        # one of them may have been left in another thread
        self.watchers = [watcher for watcher in self.watchers if not watcher.is_stopped]
        if rule[0] == "nothing" or self._is_passing():
            return function(*args, **kwargs)
        operands = (*args, *kwargs.values())
        describer = tap_of(function)
        if describer is not None and subclasses:
            result = run_by_subclass(self, function, subclasses, args, kwargs)
            if result is not NotImplemented:
                return result
        if describer is not None and not is_backward():
            tapped = self._describe(describer, args, kwargs)
            if isinstance(tapped, Unmapped):
                return self._run_unmapped(tapped.reason, function, args, kwargs)
            if tapped is not None:
                return self._run_tapped(tapped, operands, OriginalRun(function, args, kwargs))
        if function is F.multi_head_attention_forward:
            return run_multi_head(self, self.watchers, args, kwargs)
        return self._run_untapped(rule, function, args, kwargs)

    def _describe(
        self, describer: Describer, args: tuple[Any, ...], kwargs: Any
    ) -> Tapped | Unmapped | None:
        """What a call of a tapped function does, for all watchers alike."""
        try:
            if not are_readable(tensors_in((*args, *kwargs.values()))):
                return Unmapped(UNREADABLE)
            return describe_local(describer, args, kwargs)
        except Exception as error:
            reasons = [watcher.explain_failure(error) for watcher in self.watchers]
            return Unmapped(reasons[0])

    def _is_passing(self) -> bool:
        """True while a model runs with symbolic sizes, which nobody may ask for."""
        passing = [watcher for watcher in self.watchers if watcher.is_passing]
        if passing and not is_tracing():
            for watcher in passing:
                watcher.resume()
        return any(watcher.is_passing for watcher in self.watchers)

    def _run_unmapped(
        self, reason: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Run a function that attends as if nobody watched, and note a gap for every watcher."""
        result = self._run_untapped(("other", rule_of(function)[1]), function, args, kwargs)
        for watcher in self.watchers:
            watcher.note_unmapped(reason)
        return result

    def _run_untapped(
        self, rule: Rule, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Run a function that has no tap, and let every watcher follow its data flow."""
        if may_write(rule[1], args, kwargs):
            for watcher in self.watchers:
                watcher.save_sides(args, kwargs)
        result = self._run_with_edits(rule, function, args, kwargs)
        tensors = [*tensors_in((*args, *kwargs.values(), result))]
        for watcher in self.watchers:
            with watcher.tracker.layer.active(tensors):
                watcher.follow(rule, args, kwargs, result)
        return result

    def _run_with_edits(
        self, rule: Rule, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Run a function; a product of hand-written weights with the edits of all watchers."""
        is_product = rule[0] in ("product", "linear")
        if not is_product or all(watcher.products.is_idle for watcher in self.watchers):
            return function(*args, **kwargs)
        described, tensors = [], [*tensors_in((*args, *kwargs.values()))]
        for watcher in self.watchers:
            with watcher.tracker.layer.active(tensors):
                described += watcher.describe_product(rule, args)
        return run_described(described, function, args, kwargs)

    def _run_tapped(
        self, tapped: Tapped, operands: tuple[Any, ...], run_original: OriginalRun
    ) -> Any:
        """Run a tapped function by one watcher, and let the others record it beside."""
        tensors = [*tensors_in((*operands, tapped.query, tapped.key, tapped.value))]
        plans = list[tuple[Watcher, PlannedCall]]()
        for watcher in self.watchers:
            with watcher.tracker.layer.active(tensors):
                try:
                    named = watcher.tracker.name_streams(tapped, operands)
                    plans.append((watcher, watcher.plan_tapped(named)))
                except Exception as error:
                    watcher.note_failure(error)
        if not plans:
            return run_original()
        (first, planned), *others = _choose_runner(plans)
        with first.tracker.layer.active([*tensors, planned.tapped.query, planned.tapped.key]):
            result = first.run_planned(planned, run_original)
        tensors += tensors_in([result])
        for watcher, planned in others:
            with watcher.tracker.layer.active([*tensors, planned.tapped.query, planned.tapped.key]):
                watcher.note_finished(planned, result)
        return result


def _choose_runner(plans: list[tuple[Watcher, PlannedCall]]) -> list[tuple[Watcher, PlannedCall]]:
    """The plans with the edits of all, those of the watcher that runs the call first.

    A watcher that edits runs the call; without edits, one that records it does.
    """
    changes = merge_changes([planned.changes for _, planned in plans])
    beside = any(planned.options.beside for _, planned in plans)
    ranks = [(not planned.changes, not planned.is_chosen) for _, planned in plans]
    runner = ranks.index(min(ranks))
    merged = [
        (
            watcher,
            planned._replace(changes=changes, options=replace(planned.options, beside=beside)),
        )
        for watcher, planned in plans
    ]
    return [merged.pop(runner), *merged]


def _enter(watcher: Watcher) -> None:
    """Let torch call the watcher for functions of this thread."""
    stack = _get_current_function_mode_stack()
    # inside a call that a watcher handles, its own mode is not on the stack
    current = next((mode for mode in reversed(stack) if _is_watching(mode)), None)
    if isinstance(current, WatcherGroup):
        current.watchers.append(watcher)
    elif isinstance(current, Watcher):
        _replace_mode(current, WatcherGroup([current, watcher]))
    else:
        _push_mode(_mode_of([watcher]))
    for mode in stack:  # what was left in another thread, which cannot reach this stack
        if isinstance(mode, Watcher | WatcherGroup) and not _is_watching(mode):
            _replace_mode(mode, None)


def _mode_of(watchers: Sequence[Watcher]) -> TorchFunctionMode:
    """The mode that torch calls for these watchers.

    A watcher alone follows origins without asking whose they are, so they have to be its own. They
    are not in an edit function that watches, because the watcher that called it is open too.
    """
    is_alone = len(watchers) == 1 and watchers[0].tracker.layer.is_first
    return watchers[0] if is_alone else WatcherGroup(watchers)


def _is_watching(mode: TorchFunctionMode) -> bool:
    """True for a watcher that was not left, and for a group that has one."""
    if isinstance(mode, WatcherGroup):
        return any(not watcher.is_stopped for watcher in mode.watchers)
    return isinstance(mode, Watcher) and not mode.is_stopped


def _only_watchers() -> bool:
    """True if this thread has function modes, and all of them are watchers."""
    stack = _get_current_function_mode_stack()
    return bool(stack) and all(map(_is_watching, stack))


def _leave(watcher: Watcher) -> None:
    """Let torch call the watcher no longer, wherever it is on the stack."""
    watcher.stop()
    for mode in _get_current_function_mode_stack():
        if mode is watcher:
            _replace_mode(watcher, None)
        elif isinstance(mode, WatcherGroup):
            mode.watchers = [other for other in mode.watchers if not other.is_stopped]
            if len(mode.watchers) < 2:
                _replace_mode(mode, _mode_of(mode.watchers) if mode.watchers else None)


def _replace_mode(mode: TorchFunctionMode, other: TorchFunctionMode | None) -> None:
    """Put another mode, or none, in the place of a mode on the stack."""
    above = []
    while (top := _pop_mode()) is not mode:
        above.append(top)
    for kept in (*([] if other is None else [other]), *reversed(above)):
        _push_mode(kept)


def share_between_threads(mode: TorchFunctionMode) -> None:
    """Let several threads call a mode, one at a time.

    Only a mode that a second thread inherits has a lock, so that all others need not ask for it.
    """
    if "__torch_function__" not in vars(mode):
        mode.shared_lock = threading.RLock()  # type: ignore[attr-defined]
        mode.__torch_function__ = types.MethodType(_run_alone, mode)  # type: ignore[method-assign]


def _run_alone(
    mode: Any, function: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None
) -> Any:
    """Run a torch function while no other thread runs one for the same mode."""
    if rule_of(function)[0] == "nothing":
        return function(*args, **kwargs or {})
    with mode.shared_lock:
        return type(mode).__torch_function__(mode, function, kinds, args, kwargs)
