"""The watcher: sees every function of torch that runs, and describes those that attend."""

import functools
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.kernels.observe import Observation, Scoring
from regard.kernels.observe.taps import Tapped, tap_of
from regard.tracing.assembly.decoding_runs import DecodingRuns
from regard.tracing.dataflow.checkpoint_recompute import is_backward, settled
from regard.tracing.dataflow.origins import Mark, Streams, mark_of, put, tensors
from regard.tracing.dataflow.rule_table import rule_of
from regard.tracing.dataflow.tracker import Follower
from regard.tracing.recording.manual_edits import Mixer
from regard.tracing.recording.observe_call import Turn
from regard.tracing.recording.options import Kept
from regard.tracing.recording.record import CallRecord
from regard.tracing.recording.watch_options import WatchOptions
from regard.tracing.sites import Given, Sites, running


class Watcher(TorchFunctionMode):
    """Notes every call that attends; the model's results stay what they were, but for edits."""

    def __init__(self, sites: Sites, wishes: WatchOptions) -> None:
        super().__init__()
        self.sites, self.wishes = sites, wishes
        self.calls = DecodingRuns()
        self.attended = dict[str, None]()  # every site that was seen, chosen or not
        self.follower = Follower(sites, self._keep_by_hand)
        self._second_axis = 0  # of what the model was given first
        self._parts: int | None = None  # of torch's own multi-head attention, while it runs
        sites.begun.append(self._begun)
        self.mixer = Mixer(sites, wishes)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function, and note what it did if it attends."""
        kwargs = kwargs or {}
        decision = rule_of(function)
        if decision[0] == "nothing":  # sizes and the like
            return function(*args, **kwargs)
        describer = tap_of(function)
        if describer is not None and not is_backward():
            tapped = describer(*args, **kwargs)
            if tapped is not None:
                wishes, named = self.wishes, self.follower.named(tapped, (*args, *kwargs.values()))
                self.wishes, tapped = settled(wishes, named)
                try:
                    result = self._attended(tapped, lambda: function(*args, **kwargs))
                finally:
                    self.wishes = wishes
                self.follower.attended(named, result)
                return result
        if function is F.multi_head_attention_forward:
            return self._looked_inside(args, kwargs)
        if decision[0] in ("product", "linear") and not self.mixer.idle:
            result = self.mixer.run(decision[1], function, args, kwargs)
        else:
            result = function(*args, **kwargs)
        self.follower.follow(decision, args, kwargs, result)
        return result

    def _looked_inside(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """torch's own multi-head attention, with the weights that it used if they were edited."""
        self.mixer.used = None
        query = args[0] if args else kwargs["query"]
        batch = query.shape[1] if query.dim() == 3 else 1
        examples = self._examples(batch)
        self.sites.batch, self._parts = examples, batch // examples
        # weights inside have heads folded into the batch
        self.sites.heads = args[4] if len(args) > 4 else kwargs["num_heads"]
        try:
            with self:  # look at the calls inside
                context, weights = _mha_forward()(*args, **kwargs)
        finally:
            self.sites.heads, self._parts = 0, None
        edited = self.mixer.used
        if weights is not None and edited is not None:
            averaged = weights.numel() < edited.numel()
            weights = (edited.mean(dim=1) if averaged else edited).reshape(weights.shape)
        return context, weights

    def _begun(self, given: Given) -> None:
        first = next((each for each in given.values() if each.dim() > 1), None)
        self._second_axis = 0 if first is None else first.shape[1]

    def _examples(self, batch: int) -> int:
        """How many examples rows of this number are, where the batch may come second."""
        known, module = self.sites.batch, next(running(), None)
        second = self._second_axis == batch and not getattr(module, "batch_first", True)
        return batch if second or not known or batch % known else known

    def _attended(self, tapped: Tapped, own: Callable[[], Any]) -> Any:
        streams = (mark_of(tapped.query).stream, mark_of(tapped.key).stream)
        turn = Turn(self.sites.here, tapped, _placed(tapped, streams), own)
        self.attended[turn.site] = None
        changes = self.wishes.editor.changes(turn.call) if self.wishes.editor else []
        chosen = self.wishes.choice.fits(turn.site)
        if chosen or changes:
            result, observed, kept = turn.run(self.wishes, changes)
            if kept.outlet is not None:
                self.mixer.outlets.wait(kept.outlet)
        else:
            result = own()
        if chosen:
            self.calls.keep(self._seen(turn, streams, observed, kept, turn.changed(changes)))
        for each in tensors([result]):
            put(each, Mark(streams[0]))
        return result

    def _seen(
        self,
        turn: Turn,
        streams: Streams,
        observed: Observation | None,
        kept: Kept,
        weights: Tensor | None,
    ) -> CallRecord:
        tapped, rounded = turn.tapped, self.wishes.keep.rounded
        if observed is not None:
            lse = observed.lse if kept.exact else observed.lse.float()
            observed = replace(observed, context=None, lse=lse)
        return CallRecord(
            turn.site,
            *streams,
            rounded(tapped.query.detach()),
            rounded(tapped.key.detach()),
            None if observed is None else observed.scoring,
            observed,
            weights,
            tapped.mask if tapped.scoring is None else tapped.scoring.mask,
            tapped.key.shape[2],
            self._parts or self.sites.parts(len(tapped.query)),
            kept,
        )

    def _keep_by_hand(self, call: CallRecord) -> None:
        self.attended[call.site] = None
        call = self.mixer.kept(replace(call, parts=self._parts or call.parts))
        if self.wishes.choice.fits(call.site):
            self.calls.keep(call)


def _placed(tapped: Tapped, streams: Streams) -> Scoring | None:
    """The scoring with its queries at the end of the keys, where a cache came before them."""
    scoring = tapped.scoring
    queries, keys = tapped.query.shape[2], tapped.key.shape[2]
    plain = scoring is not None and scoring.mask is None
    if scoring is not None and plain and streams[0] == streams[1] and keys > queries:
        return replace(scoring, offset=keys - queries)
    return scoring


@functools.cache
def _mha_forward() -> Callable[..., Any]:
    """torch's function without its own check for watchers, which would call the watcher again."""
    function = F.multi_head_attention_forward
    scope = function.__globals__ | {"has_torch_function": lambda operands: False}
    copy = types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
