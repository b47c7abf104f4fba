"""The mask, bias and positions of one attention call, and how they change its scores."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.masks import Area, Bias, Mask, everything


@dataclass(frozen=True)
class Terms:
    """The mask and bias of a call, and the positions of its first query and first key.

    The first query stands at position `offset`, the first key at position `first`.
    """

    mask: Mask = field(default_factory=everything)
    bias: Bias | None = None
    offset: int = 0
    first: int = 0

    def area(self, rows: range, keys: int, device: torch.device) -> Area:
        """The area of the queries `rows` and all keys of the call."""
        return Area(rows, range(self.first, self.first + keys), self.offset, device)

    def apply(
        self, scores: Float[Tensor, "batch head query key"], area: Area
    ) -> Float[Tensor, "batch head query key"]:
        """The scores with the bias added, and minus infinity where the mask hides a key."""
        if self.bias is not None:
            scores = scores + self.bias.cut(area).to(scores.dtype)
        band, rest = self.mask.split()
        if rest is None and band.covers(area):
            return scores
        return scores.masked_fill(~self.mask.cut(area), -torch.inf)

    def dense(
        self, area: Area, dtype: torch.dtype
    ) -> Bool[Tensor, "batch head query key"] | Float[Tensor, "batch head query key"] | None:
        """Mask and bias as one tensor for a fused kernel; None if all keys are seen without bias.

        It is boolean, True where a key is seen, unless there is a bias to add.
        """
        band, rest = self.mask.split()
        seen = None if rest is None and band.covers(area) else self.mask.cut(area)
        if self.bias is None:
            return seen
        added = self.bias.cut(area).to(dtype)
        return added if seen is None else added.masked_fill(~seen, -torch.inf)
