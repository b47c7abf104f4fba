"""The rows of one site in every example of a batch: their statistics, and which of them count."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.kernels.observe import Statistics, received
from regard.kernels.observe.full_weights import statistics_of
from regard.masks import Area, Mask, causal, everything
from regard.tracing.assembly.stacking import StackedCall, is_whole_batch
from regard.tracing.recording.record import CallRecord
from regard.tracing.statistics.streams import StreamTokens

MAX_MASK_STRIP = 1 << 22  # entries of a mask that are held at once

Numbers = Float[Tensor, "example head row"]


@dataclass(frozen=True, eq=False)
class SiteRows:
    """The rows of a site: `above` are the tokens of its rows, `across` those of its columns.

    Where a vision model attends within windows, the windows of an example are stacked as rows.
    """

    stack: StackedCall
    above: StreamTokens
    across: StreamTokens

    @property
    def call(self) -> CallRecord:
        """The call of all examples."""
        return self.stack.record

    @cached_property
    def numbers(self) -> dict[str, Numbers]:
        """The statistics of each row by name."""
        found = {name: self._by_example(part) for name, part in vars(self._statistics).items()}
        del found["largest_key"]
        found["confidence"] = found.pop("largest")
        return found

    @cached_property
    def live(self) -> Bool[Tensor, "example head row"]:
        """True for rows of real tokens that attend to any key or to a sink."""
        _, _, queries, _ = self.call.sizes
        late = self.above.real.shape[1] - queries  # rows that a cache had read before
        there = torch.tensor(self.stack.rows) >= 0
        real = self.above.real[:, late:].repeat(1, self.call.windows) & there[:, None]
        attends = (self.numbers["confidence"] != 0) | (self.numbers["on_sink"] != 0)
        return attends & real[:, None]

    @cached_property
    def visible(self) -> Int[Tensor, "example _head row"]:
        """How many real columns each row may see by the mask.

        Where no mask was kept, a text in which no row gives weight to a later token is taken to
        have a causal mask; otherwise every row may see every column.
        """
        if self.call.scoring is not None:
            return self._count_visible(self.call.scoring.mask)
        if not self.call.is_self_attention:
            return self._count_visible(None)
        ahead = (self.numbers["on_future"] * self.live).flatten(1).any(dim=1)
        return self._count_visible(None).where(ahead[:, None, None], self._count_visible(causal()))

    def by_kind(self, count: int) -> Float[Tensor, "example head row kind"] | None:
        """The mass of each row on each of `count` kinds of tokens; None where no kinds are known.

        This costs a second pass over queries and keys.
        """
        kinds = self.across.kinds
        if kinds is None:
            return None
        batch, _, _, keys = self.call.sizes
        labels = kinds.new_full((batch, keys), -1)
        labels[self._index] = kinds.repeat_interleave(self.call.windows, dim=0)
        found = self._mass_by_label(labels)
        return F.pad(self._by_example(found), (0, count - found.shape[3]))

    def _mass_by_label(
        self, labels: Int[Tensor, "batch key"]
    ) -> Float[Tensor, "batch head query label"]:
        call = self.call
        labels = labels.to(call.query.device)
        if call.weights is not None:
            own = F.one_hot(labels.clamp_min(0)) * (labels >= 0)[..., None]
            return call.weights @ own[:, None].to(call.weights)
        assert call.observation is not None
        assert call.scoring is not None
        sides = (call.query, call.key, call.observation.lse)
        found = received(*sides, call.scoring, labels=labels).by_label
        assert found is not None
        return found

    @cached_property
    def _statistics(self) -> Statistics:
        if self.call.weights is not None:
            return statistics_of(self.call.weights, self._offset)
        assert self.call.observation is not None
        assert self.call.observation.statistics is not None
        return self.call.observation.statistics

    @property
    def _offset(self) -> int:
        """The column at which the first row stands."""
        if self.call.scoring is not None:
            return self.call.scoring.offset
        _, _, queries, keys = self.call.sizes
        return keys - queries if self.call.is_self_attention else 0

    def _count_visible(self, mask: Mask | None) -> Int[Tensor, "example _head row"]:
        found = list(self._counts(mask or everything()))
        return self._stack_windows(torch.cat(found, dim=2))

    def _counts(self, mask: Mask) -> Iterator[Int[Tensor, "_batch _head _query"]]:
        """How many real columns each row may see, a strip of rows at a time."""
        _, _, queries, keys = self.call.sizes
        real = self.across.real.repeat_interleave(self.call.windows, dim=0)[:, None, None]
        height = max(1, MAX_MASK_STRIP // max(1, len(real) * keys))
        for start in range(0, queries, height):
            run = range(start, min(queries, start + height))
            area = Area(run, range(keys), self._offset, self.call.query.device)
            seen = mask.cut(area).cpu()
            seen = seen[self._index] if len(seen) > 1 and not self._is_whole else seen
            yield (seen & real).sum(dim=3).expand(-1, -1, len(run))

    @cached_property
    def _is_whole(self) -> bool:
        return self.call.windows == 1 and is_whole_batch(self.call, self.stack.rows)

    @cached_property
    def _index(self) -> Int[Tensor, " row"]:
        """The row of the call's batch that each window of each example has."""
        first = torch.tensor(self.stack.rows).clamp_min(0) * self.call.windows
        return (first[:, None] + torch.arange(self.call.windows)).flatten()

    def _by_example(self, part: Tensor) -> Tensor:
        """Numbers of the call's batch (batch head query ...) as (example head row ...)."""
        part = part.detach().cpu()
        return self._stack_windows(part if self._is_whole else part[self._index])

    def _stack_windows(self, part: Tensor) -> Tensor:
        if self.call.windows == 1:
            return part
        windows: Tensor = part.unflatten(0, (-1, self.call.windows))
        return windows.movedim(1, 2).flatten(2, 3)
