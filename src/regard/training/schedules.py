"""Learning rate schedules: the fraction of the peak rate at each step, counted from 1."""

import math
from collections.abc import Callable

from regard.errors import InputError, UnknownNameError

Schedule = Callable[[int], float]


def inverse_square_root(warmup: int, total: int) -> Schedule:
    """A linear rise to 1 over the warm-up, then 1/sqrt(step) (Vaswani et al. 2017, eq. 3)."""

    def fraction(step: int) -> float:
        return min(step / warmup, math.sqrt(warmup / step)) if warmup else 1 / math.sqrt(step)

    return fraction


def cosine(warmup: int, total: int) -> Schedule:
    """A linear rise to 1 over the warm-up, then half a cosine down to 0 at the last step.

    The decay is that of Loshchilov and Hutter (2017, eq. 5) without restarts.
    """

    def fraction(step: int) -> float:
        if step <= warmup:
            return step / warmup
        progress = (step - warmup) / max(1, total - warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))

    return fraction


def constant(warmup: int, total: int) -> Schedule:
    """A linear rise to 1 over the warm-up, then always 1."""

    def fraction(step: int) -> float:
        return min(1.0, step / warmup) if warmup else 1.0

    return fraction


SCHEDULES = {
    "inverse-square-root": inverse_square_root,
    "cosine": cosine,
    "constant": constant,
}


def schedule(name: str, warmup: int, total: int) -> Schedule:
    """The schedule of this name.

    >>> from regard.training.schedules import schedule
    >>> rate = schedule("inverse-square-root", warmup=100, total=1000)
    >>> rate(50), rate(100), rate(400)
    (0.5, 1.0, 0.5)
    """
    if name not in SCHEDULES:
        raise UnknownNameError("schedule", name, SCHEDULES)
    if warmup < 0 or total < 1:
        raise InputError(
            f"a schedule expected a warm-up of at least 0 and a total of at least 1 steps, got "
            f"{warmup} and {total}"
        )
    return SCHEDULES[name](warmup, total)
