"""One call of a function that attends: observed, edited, and what is kept of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.observe import Observation, ObserveOptions, Scoring, observe
from regard.kernels.observe.full_weights import weigh
from regard.kernels.observe.taps import Tapped
from regard.masks import Area, Mask, everything
from regard.tracing.dataflow.origins import tensors
from regard.tracing.dataflow.output_projection import Outlet
from regard.tracing.recording.editor import Change, given, noted, used
from regard.tracing.recording.edits import AttentionCall
from regard.tracing.recording.options import Kept, Landing
from regard.tracing.recording.watch_options import WatchOptions

CONTEXT_ONLY = ObserveOptions(statistics=False, atlas=0)


@dataclass(frozen=True, eq=False)
class Turn:
    """A call, with its scoring settled; `own` runs the function as the model would."""

    site: str
    tapped: Tapped
    scoring: Scoring | None
    own: Callable[[], Any]

    @property
    def call(self) -> AttentionCall:
        """The call as an edit sees it."""
        each = self.tapped
        batch, heads, queries, _ = each.query.shape
        sizes = (batch, heads, queries, each.key.shape[2])
        mask, offset = each.mask, each.offset
        if self.scoring is not None:
            mask, offset = self.scoring.mask, self.scoring.offset
        see = partial(seen_keys, mask, sizes, offset, each.query.device)
        return AttentionCall(
            self.site, sizes, each.query, each.key, each.value, self.scoring, self.weigh, see
        )

    def weigh(self) -> Tensor:
        """The weights of the call, dense."""
        if self.tapped.weights is not None:
            return self.tapped.weights
        assert self.scoring is not None
        return weigh(self.tapped.query, self.tapped.key, self.scoring)

    def run(
        self, wishes: WatchOptions, changes: list[Change]
    ) -> tuple[Any, Observation | None, Kept]:
        """What the function gives, what was observed, and what is kept beside it."""
        observed, context = self._observed(wishes, changes), None
        if changes and self.tapped.dropout:
            context = F.dropout(self.weigh(), self.tapped.dropout).to(self._values) @ self._values
        elif self.tapped.weights is not None and not self.tapped.dropout:
            context = self.tapped.weights @ self._values
        elif observed is not None:
            context = observed.context
        if context is not None:
            context = given(context, self.tapped.value, changes)
        result = self.own() if context is None else self.tapped.finish(context)
        return result, observed, self._kept(wishes, changes, context, result)

    def _observed(self, wishes: WatchOptions, changes: list[Change]) -> Observation | None:
        if self.scoring is None:
            return None
        own_runs = self.tapped.dropout > 0 or (wishes.beside and not changes)
        what = wishes.what if wishes.choice.fits(self.site) else CONTEXT_ONLY
        what = replace(what, context=not own_runs)
        sides = (self.tapped.query, self.tapped.key, self.tapped.value)
        return observe(*sides, keep=what, **vars(self.scoring))

    @property
    def _values(self) -> Tensor:
        """The values, shared by groups of heads or not, with a head for each of the queries."""
        value = self.tapped.value
        groups = self.tapped.query.shape[1] // value.shape[1]
        return value if groups == 1 else value.repeat_interleave(groups, dim=1)

    def _kept(
        self, wishes: WatchOptions, changes: list[Change], context: Tensor | None, result: Any
    ) -> Kept:
        keep, each = wishes.keep, self.tapped
        landing = Landing() if keep.gradients else None
        if landing is not None:
            self._await(landing, context, result)
        return Kept(
            wishes.choice.heads(self.site),
            keep.rounded(each.query).dtype == each.query.dtype,
            each.value.detach() if keep.values else None,
            landing,
            noted(changes) if self.scoring is not None else (),
            self._outlet(context, result) if keep.outputs else None,
        )

    def _outlet(self, context: Tensor | None, result: Any) -> Outlet | None:
        """Where the context waits for the matrix that it goes into."""
        first = next(iter(tensors([result])), None)
        if context is None and first is not None:
            context = self._before_finish(first.detach())
        return None if context is None else Outlet(context.detach())

    def _await(self, landing: Landing, context: Tensor | None, result: Any) -> None:
        """Let the gradient of the context land, by way of the result where the function ran."""
        if context is not None:
            if context.requires_grad:
                context.register_hook(landing.take)
            return
        first = next(iter(tensors([result])), None)
        if first is not None and first.requires_grad:
            first.register_hook(lambda gradient: landing.take(self._before_finish(gradient)))

    def _before_finish(self, gradient: Tensor) -> Tensor:
        """A gradient of what the function returns as one of its context."""
        shape = (*self.tapped.query.shape[:3], self.tapped.value.shape[3])
        with torch.enable_grad():
            context = gradient.new_zeros(shape).requires_grad_()
            result = next(iter(tensors([self.tapped.finish(context)])))
        return torch.autograd.grad(result, context, gradient)[0]

    def changed(self, changes: list[Change]) -> Tensor | None:
        """The weights that were used, where they are all that is known of the call."""
        weights = self.tapped.weights
        return None if weights is None else used(weights, changes).detach()


def seen_keys(
    mask: Mask | None, sizes: tuple[int, int, int, int], offset: int, device: torch.device
) -> Tensor:
    """Which keys each query may see."""
    area = Area(range(sizes[2]), range(sizes[3]), offset, device)
    return (mask or everything()).cut(area)
