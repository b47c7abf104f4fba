"""Running means and standard deviations over examples, which can be merged exactly."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

Numbers = Float[Tensor, "measure head"]


@dataclass(frozen=True, eq=False)
class Moments:
    """The count of examples, their mean, and the sum of squared differences from the mean.

    Two of them add up to those of all examples together (Chan, Golub & LeVeque 1979),
    without the loss of digits of sums of squares. An example whose number is not finite is not
    counted for that number.

    >>> import torch
    >>> from regard.tracing.statistics.moments import Moments
    >>> one, other = (Moments.of(torch.tensor(each)[:, None, None]) for each in ([1.0, 3.0], [5.0]))
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
        apart = other.mean - self.mean
        return Moments(
            count,
            self.mean + apart * share,
            self.squares + other.squares + apart.square() * self.count * share,
        )

    @property
    def means(self) -> Numbers:
        """The means; NaN where no example has the number."""
        return self.mean.where(self.count > 0, torch.nan)

    @property
    def spread(self) -> Numbers:
        """The standard deviation over examples (n - 1 below the line); NaN of fewer than two."""
        found = (self.squares / (self.count - 1).clamp_min(1)).sqrt()
        return found.where(self.count > 1, torch.nan)
