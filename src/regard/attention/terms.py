"""What a call does to the scores besides scoring: its mask, its bias, where its queries stand."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.masks import Area, Bias, Mask, everything


@dataclass(frozen=True)
class Terms:
    """The mask and bias of a call, and the positions of its first query and first key."""

    mask: Mask = field(default_factory=everything)
    bias: Bias | None = None
    offset: int = 0
    first: int = 0

    def area(self, rows: range, keys: int, device: torch.device) -> Area:
        """Some rows of the call and all of its keys."""
        return Area(rows, range(self.first, self.first + keys), self.offset, device)

    def applied(
        self, scores: Float[Tensor, "batch head query key"], area: Area
    ) -> Float[Tensor, "batch head query key"]:
        """The scores with the bias added, and minus infinity where a key is not seen."""
        if self.bias is not None:
            scores = scores + self.bias.cut(area).to(scores.dtype)
        band, rest = self.mask.split()
        if rest is None and band.covers(area):
            return scores
        return scores.masked_fill(~self.mask.cut(area), -torch.inf)

    def dense(
        self, area: Area, dtype: torch.dtype
    ) -> Bool[Tensor, "batch head query key"] | Float[Tensor, "batch head query key"] | None:
        """The same as one tensor for a fused kernel: boolean, or numbers where there is a bias."""
        band, rest = self.mask.split()
        seen = None if rest is None and band.covers(area) else self.mask.cut(area)
        if self.bias is None:
            return seen
        added = self.bias.cut(area).to(dtype)
        return added if seen is None else added.masked_fill(~seen, -torch.inf)
