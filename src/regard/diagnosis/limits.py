"""The limits of all checks, each with its source.

`bench/diagnosis.py` measures them: the most extreme values of healthy models, how often a check
fires on healthy models and texts that were not used to set its limit, and how many injected faults
it finds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Side = Literal["above", "below"]


@dataclass(frozen=True)
class Limit:
    """A threshold, the side of it on which a value is reported, and the source of the threshold.

    `fires` is the share of healthy models and texts on which the check reports something, `recall`
    the share of faults injected at full strength that it finds, both on models and texts that were
    not used to set the limit. They are None if they were not measured.

    >>> from regard.diagnosis.limits import Limit
    >>> Limit(0.5, "above", "half of the weight").crossed(0.7)
    True
    """

    value: float
    side: Side
    source: str
    fires: float | None = None
    recall: float | None = None

    def crossed(self, value: float) -> bool:
        """True if a value is on the side that is reported; NaN never is."""
        return value > self.value if self.side == "above" else value < self.value


_EXACT = "sound models have 0 up to rounding; far above what half precision adds"
_MIDWAY = (
    "midway between the most extreme value of healthy models ({healthy}; en-zh-transformer, "
    "stories260K and MiniLM, 80 texts each, one at a time) and that of a fault of full strength "
    "({fault})"
)
_HALF = "half of a head's weight"


def _midway(value: float, side: Side, healthy: float, fault: float, **measured: float) -> Limit:
    """A limit midway between the extreme value of healthy models and that of a full fault."""
    return Limit(value, side, _MIDWAY.format(healthy=healthy, fault=fault), **measured)


LIMITS: Mapping[str, Limit] = MappingProxyType(
    {
        "numeric": Limit(0.0, "above", _EXACT, 0.0, 1.0),
        "sums": Limit(0.01, "above", _EXACT, 0.0, 1.0),
        "padding": Limit(0.001, "above", _EXACT, 0.0, 1.0),
        "leak": Limit(0.001, "above", _EXACT, 0.0, 1.0),
        "leak-behaviour": Limit(0.001, "above", _EXACT, 0.0, 1.0),
        "padding-behaviour": Limit(0.001, "above", _EXACT, 0.0, 1.0),
        "length": Limit(1.0, "above", "times the positions that the model's config names"),
        "one-hot": _midway(0.162, "below", 0.324, 0.0, fires=0.0, recall=1.0),
        "dropped": _midway(0.058, "below", 0.116, 0.0, fires=0.0025, recall=1.0),
        "repeated": Limit(
            8.2, "above", "1.5 times the largest value of the same healthy models, 5.45", 0.0, 1.0
        ),
        "collapsed": _midway(0.148, "below", 0.296, 0.0, fires=0.0, recall=1.0),
        "silent": Limit(0.5, "above", "half of the rows", 0.0, 1.0),
        "uniform": _midway(0.976, "above", 0.952, 1.0, fires=0.0, recall=1.0),
        "constant": _midway(0.095, "below", 0.19, 0.0, fires=0.0, recall=1.0),
        "redundant": Limit(0.15, "below", "what a tenth of healthy models and texts has", 0.1, 1.0),
        "sink": Limit(0.5, "above", _HALF, 0.44, 1.0),
        "special": Limit(0.5, "above", _HALF, 0.2),
        "punctuation": Limit(0.5, "above", _HALF, 0.04),
        "unexplained": Limit(0.5, "below", "chance: erasing random words does as much"),
        "irrelevant": Limit(2.0, "above", "twice the mean share of the weight"),
        "summary": Limit(0.0, "above", "always told"),
        "role": Limit(0.4, "above", "a clear part of a head's weight"),
    }
)
