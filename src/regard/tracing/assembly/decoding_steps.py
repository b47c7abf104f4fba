"""Decoding steps of one example, noted in one native call each instead of in a record each.

Most of a watched `generate` are calls alike: one query, one key more than before, no mask. For
these a record, its description and eleven tensors of statistics would take longer than the call.
`DecodingSteps` observes them with a `QueryRows` for each site, and `DecodingRuns` gets one record
for all of them when it is asked. Any other call takes the general way of `watcher.Watcher`:

    prompt of 64 tokens      general way: begins the run of each site
    steps 65, 66, ..., 90    noted here: one record of 26 queries when the block ends
    a step that is not like these (a mask, other keys, a NaN): a record of its own, after them
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.observe.one_query import QueryRows
from regard.tracing.assembly.decoding_runs import DecodingRuns, StepsAtSite
from regard.tracing.dataflow.checkpoint_recompute import must_stay_beside
from regard.tracing.dataflow.origins import set_origin, stream_origin
from regard.tracing.recording.options import WatchOptions

__all__ = ["DecodingSteps"]

_FUNCTIONS = (F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention)


class DecodingSteps:
    """Observes the calls of scaled_dot_product_attention that are simple decoding steps.

    `find_site` gives the name of the site that is running; `on_failure` gets errors of ours.
    """

    def __init__(
        self,
        find_site: Callable[[], str],
        options: WatchOptions,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._find_site, self._options, self._on_failure = find_site, options, on_failure
        keep, numbers = options.keep, options.observe
        extras = keep.values or keep.gradients or keep.outputs or numbers.top
        self._is_possible = not (options.editor or extras)

    def run(
        self, runs: DecodingRuns, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """The result of a simple decoding step; NotImplemented for any other call."""
        if not self._is_possible or not runs.takes_steps:
            return NotImplemented
        try:
            step = self.observe(runs, function, args, kwargs)
        except Exception as error:
            self._on_failure(error)
            return NotImplemented
        if step is None:
            return NotImplemented
        context, stream = step
        result = function(*args, **kwargs) if self._options.beside else context
        set_origin(result, stream_origin(stream, -2))
        return result

    def observe(
        self, runs: DecodingRuns, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Tensor, str] | None:
        """The context of a call and the stream of its queries; None if it is not a simple step.

        If the model's own function is to run, the context has no numbers.
        """
        if function not in _FUNCTIONS or len(args) != 3:
            return None
        scale = _simple_scale(kwargs)
        query, key, value = args
        if type(query) is not Tensor or query.is_nested or type(value) is not Tensor:
            return None
        if query.shape[-2] != 1 or scale is False:
            return None
        stream = _common_stream(query, key)
        if stream is None:
            return None
        if torch.is_grad_enabled() or must_stay_beside():
            return None
        site = self._find_site()
        steps = runs.steps.get(site) or self._begin(runs, site, stream, query, key, value, scale)
        if steps is None or steps.stream != stream or not steps.rows.fits(query, key, value, scale):
            return None
        context = steps.rows.observe(query, key, value, context=not self._options.beside)
        if context is None:
            return None
        runs.note_continued(stream)
        return context, stream

    def _begin(
        self,
        runs: DecodingRuns,
        site: str,
        stream: str,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float | None,
    ) -> StepsAtSite | None:
        """The steps at a site, of which there are none yet; None if it has no simple run."""
        run = runs.simple_run(site, stream)
        if run is None or not self._options.sites.includes(site):
            return None
        last = run[-1]
        fits = key.shape[2] == last.keys_seen + 1 and key.dtype == last.key.dtype
        if not fits or query.shape[:2] != (1, last.sizes[1]) or key.shape[1] != last.key.shape[1]:
            return None
        rows = QueryRows.after(last.key, query.shape[1], value.shape[3], scale)
        if rows is None:
            return None
        rows.keys = rows.first_position = last.keys_seen
        steps = runs.steps[site] = StepsAtSite(site, stream, run, rows, self._options)
        return steps


def _simple_scale(kwargs: Mapping[str, Any]) -> float | bool | None:
    """The scale among keyword arguments; False if there is a mask or dropout."""
    scale = None
    for name, value in kwargs.items():
        if name == "scale":
            scale = value
        elif not (value is None or value is False or name == "enable_gqa" or _is_zero(value)):
            return False
    return scale


def _common_stream(query: Tensor, key: Tensor) -> str | None:
    """The stream of plain tensors that are queries and keys of one stream; None for others."""
    if type(query) is not Tensor or type(key) is not Tensor:
        return None
    origin, other = getattr(query, "_regard_origin", None), getattr(key, "_regard_origin", None)
    if origin is None or other is None or origin.layout != "tokens":
        return None
    stream: str | None = origin.stream
    return stream if stream == other.stream else None


def _is_zero(value: Any) -> bool:
    """True for a dropout of zero."""
    return isinstance(value, float) and value == 0.0
