"""From numbers to findings: what is wrong with this attention, in sentences with numbers."""

from regard.diagnosis.catalog import CHECKS
from regard.diagnosis.check import Check, Checks, Hit
from regard.diagnosis.diagnose import diagnose
from regard.diagnosis.evidence import Evidence
from regard.diagnosis.limits import Limit
from regard.studies.interventions import (
    Comparison,
    compare_edit,
    knock_out,
    mask_future,
    set_temperature,
)

__all__ = [
    "CHECKS",
    "Check",
    "Checks",
    "Comparison",
    "Evidence",
    "Hit",
    "Limit",
    "compare_edit",
    "diagnose",
    "knock_out",
    "mask_future",
    "set_temperature",
]
