"""Running means and standard deviations over examples, which can be merged exactly."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Numbers = Float[Tensor, "measure head"]


@dataclass(frozen=True, eq=False)
class Moments:
    """The count of examples, their mean, and the sum of squared differences from the mean.

    The sum of two `Moments` is that of all their examples together (Chan, Golub & LeVeque 1979). It
    does not lose digits, as the difference of two large sums of squares would. An example whose
    number is not finite is not counted for that number.

    >>> import torch
    >>> from regard.tracing.statistics.moments import Moments
    >>> one = Moments.of(torch.tensor([1.0, 3.0])[:, None, None])
    >>> other = Moments.of(torch.tensor([5.0])[:, None, None])
    >>> (one + other).mean.item(), (one + other).spread.item()
    (3.0, 2.0)
    """

    count: Numbers
    mean: Numbers
    squares: Numbers

    @classmethod
    def of(cls, values: Float[Tensor, "example measure head"]) -> "Moments":
        """The moments of examples that have one number of each measure for each head."""
        values = values.double()
        known = values.isfinite()
        count = known.sum(dim=0).double()
        mean = values.where(known, 0.0).sum(dim=0) / count.clamp_min(1)
        squares = (values - mean).where(known, 0.0).square().sum(dim=0)
        return cls(count, mean, squares)

    def __add__(self, other: "Moments") -> "Moments":
        count = self.count + other.count
        share = other.count / count.clamp_min(1)
        difference = other.mean - self.mean
        return Moments(
            count,
            self.mean + difference * share,
            self.squares + other.squares + difference.square() * self.count * share,
        )

    @property
    def means(self) -> Numbers:
        """The means; NaN where no example has the number."""
        return self.mean.where(self.count > 0, torch.nan)

    @property
    def spread(self) -> Numbers:
        """The standard deviation over examples (divided by n - 1); NaN for fewer than two."""
        deviation = (self.squares / (self.count - 1).clamp_min(1)).sqrt()
        return deviation.where(self.count > 1, torch.nan)
