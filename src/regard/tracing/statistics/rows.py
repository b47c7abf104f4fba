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
    """The rows of a site in every example of a batch.

    `above` are the tokens that the rows stand for, `across` those of the columns. Where a vision
    model attends within windows, the windows of an example are stacked as rows.
    """

    stack: StackedCall
    above: StreamTokens
    across: StreamTokens

    @property
    def call(self) -> CallRecord:
        """The attention call, with all examples of the batch."""
        return self.stack.record

    @cached_property
    def numbers(self) -> dict[str, Numbers]:
        """The statistics of each row by name."""
        statistics = vars(self._statistics).items()
        numbers = {name: self._by_example(values) for name, values in statistics}
        del numbers["largest_key"]  # an index, of which no mean can be taken
        numbers["confidence"] = numbers.pop("largest")
        return numbers

    @cached_property
    def live(self) -> Bool[Tensor, "example head row"]:
        """True for rows of real tokens that attend to any key or to a sink."""
        _, _, queries, _ = self.call.sizes
        cached = self.above.real.shape[1] - queries  # tokens of earlier calls, now in the cache
        in_call = torch.tensor(self.stack.rows) >= 0  # examples that this call has a row of
        real = self.above.real[:, cached:].repeat(1, self.call.windows) & in_call[:, None]
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
        mass = self._mass_by_label(labels)
        # kinds that no token of the batch has are missing at the end
        return F.pad(self._by_example(mass), (0, count - mass.shape[3]))

    def _mass_by_label(
        self, labels: Int[Tensor, "batch key"]
    ) -> Float[Tensor, "batch head query label"]:
        """The mass of each row on the keys of each label; keys with the label -1 count for none."""
        call = self.call
        labels = labels.to(call.query.device)
        if call.weights is not None:
            one_hot = F.one_hot(labels.clamp_min(0)) * (labels >= 0)[..., None]
            return call.weights @ one_hot[:, None].to(call.weights)
        assert call.observation is not None
        assert call.scoring is not None
        sides = (call.query, call.key, call.observation.lse)
        mass = received(*sides, call.scoring, labels=labels).by_label
        assert mass is not None
        return mass

    @cached_property
    def _statistics(self) -> Statistics:
        """The statistics that the kernel observed, else those of the weights that were kept."""
        if self.call.weights is not None:
            return statistics_of(self.call.weights, self._offset)
        assert self.call.observation is not None
        assert self.call.observation.statistics is not None
        return self.call.observation.statistics

    @property
    def _offset(self) -> int:
        """The column of the same token as the first row: row i stands at column offset + i."""
        if self.call.scoring is not None:
            return self.call.scoring.offset
        _, _, queries, keys = self.call.sizes
        return keys - queries if self.call.is_self_attention else 0

    def _count_visible(self, mask: Mask | None) -> Int[Tensor, "example _head row"]:
        """How many real columns each row may see by this mask."""
        counts = list(self._count_strips(mask or everything()))
        return self._stack_windows(torch.cat(counts, dim=2))

    def _count_strips(self, mask: Mask) -> Iterator[Int[Tensor, "_batch _head _query"]]:
        """How many real columns each row may see, a strip of rows at a time."""
        _, _, queries, keys = self.call.sizes
        real = self.across.real.repeat_interleave(self.call.windows, dim=0)[:, None, None]
        height = max(1, MAX_MASK_STRIP // max(1, len(real) * keys))
        for start in range(0, queries, height):
            run = range(start, min(queries, start + height))
            area = Area(run, range(keys), self._offset, self.call.query.device)
            visible = mask.cut(area).cpu()
            if len(visible) > 1 and not self._is_whole:  # a mask of its own for each example
                visible = visible[self._index]
            yield (visible & real).sum(dim=3).expand(-1, -1, len(run))

    @cached_property
    def _is_whole(self) -> bool:
        """True if the examples are the rows of the call's batch, in order: nothing to reorder."""
        return self.call.windows == 1 and is_whole_batch(self.call, self.stack.rows)

    @cached_property
    def _index(self) -> Int[Tensor, " row"]:
        """The row of the call's batch for each window of each example."""
        first = torch.tensor(self.stack.rows).clamp_min(0) * self.call.windows
        return (first[:, None] + torch.arange(self.call.windows)).flatten()

    def _by_example(self, part: Tensor) -> Tensor:
        """Numbers of the call's batch (batch head query ...) as (example head row ...)."""
        part = part.detach().cpu()
        return self._stack_windows(part if self._is_whole else part[self._index])

    def _stack_windows(self, part: Tensor) -> Tensor:
        """Numbers of (example * window, head, query ...) as (example, head, window * query ...)."""
        if self.call.windows == 1:
            return part
        windows: Tensor = part.unflatten(0, (-1, self.call.windows))
        return windows.movedim(1, 2).flatten(2, 3)
