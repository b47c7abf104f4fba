"""The watcher: sees every function of torch that runs, and describes those that attend."""

import functools
import types
from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.kernels import What, observe
from regard.kernels.taps import Tapped, tap_of
from regard.tracing.flow import Mark, mark_of, put, tensors
from regard.tracing.following import Follower
from regard.tracing.seen import Seen
from regard.tracing.sites import Sites
from regard.tracing.stacking import continues, trimmed


class Watcher(TorchFunctionMode):
    """Notes every call that attends; the model's results stay what they were.

    `beside` lets the model's own operation run and observes beside it, bit for bit.
    """

    def __init__(self, sites: Sites, what: What, *, beside: bool) -> None:
        super().__init__()
        self.sites, self.what, self.beside = sites, what, beside
        self.runs: list[list[Seen]] = []
        self._open: dict[str, list[Seen]] = {}
        self.follower = Follower(sites, self._keep)

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function, and note what it did if it attends."""
        kwargs = kwargs or {}
        describer = tap_of(function)
        if describer is not None:
            tapped = describer(*args, **kwargs)
            if tapped is not None:
                return self._attended(tapped, lambda: function(*args, **kwargs))
        if function is F.multi_head_attention_forward:
            with self:  # look at the calls inside
                return _mha_forward()(*args, **kwargs)
        result = function(*args, **kwargs)
        self.follower.follow(function, args, kwargs, result)
        return result

    def _attended(self, tapped: Tapped, own: Callable[[], Any]) -> Any:
        own_runs = self.beside or tapped.dropout > 0 or tapped.scoring is None
        streams = (mark_of(tapped.query).stream, mark_of(tapped.key).stream)
        observed = None
        if tapped.scoring is not None:
            terms = vars(self._placed(tapped, streams))
            what = What(False, self.what.statistics, self.what.top, self.what.atlas)
            observed = observe(
                tapped.query,
                tapped.key,
                tapped.value,
                keep=what if own_runs else self.what,
                **terms,
            )
        if tapped.weights is not None and not tapped.dropout:
            result = tapped.finish(tapped.weights @ _for_each_head(tapped))
        elif own_runs or observed is None or observed.context is None:
            result = own()
        else:
            result = tapped.finish(observed.context)
        self._note(tapped, streams, observed)
        for each in tensors([result]):
            put(each, Mark(streams[0]))
        return result

    def _placed(self, tapped: Tapped, streams: tuple[str | None, str | None]) -> Any:
        """The scoring with its queries at the end of the keys, where a cache came before them."""
        scoring = tapped.scoring
        assert scoring is not None
        queries, keys = tapped.query.shape[2], tapped.key.shape[2]
        if scoring.mask is None and streams[0] == streams[1] and keys > queries:
            return type(scoring)(**vars(scoring) | {"offset": keys - queries})
        return scoring

    def _note(self, tapped: Tapped, streams: tuple[str | None, str | None], observed: Any) -> None:
        kept = None if observed is None else type(observed)(**vars(observed) | {"context": None})
        self._keep(
            Seen(
                self.sites.here,
                *streams,
                tapped.query.detach(),
                tapped.key.detach(),
                None if kept is None else kept.scoring,
                kept,
                None if tapped.weights is None else tapped.weights.detach(),
                None if tapped.scoring is None else tapped.scoring.mask,
                tapped.key.shape[2],
                self.sites.parts(len(tapped.query)),
            )
        )

    def _keep(self, call: Seen) -> None:
        run = self._open.get(call.site)
        if run is not None and continues(call, run[-1]):
            run.append(trimmed(call))
        else:
            self._open[call.site] = run = [call]
            self.runs.append(run)


def _for_each_head(tapped: Tapped) -> Tensor:
    """The values, shared by groups of heads or not, with a head for each head of the queries."""
    groups = tapped.query.shape[1] // tapped.value.shape[1]
    return tapped.value if groups == 1 else tapped.value.repeat_interleave(groups, dim=1)


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
