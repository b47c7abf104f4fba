"""From numbers to findings: what is wrong with this attention, in sentences with numbers."""

from regard.diagnosis.catalog import CHECKS
from regard.diagnosis.check import Check, Checks, Hit
from regard.diagnosis.diagnose import diagnose
from regard.diagnosis.evidence import Evidence
from regard.diagnosis.limits import Limit
from regard.studies.interventions import Trial, backwards_only, knock_out, softened, trial

__all__ = [
    "CHECKS",
    "Check",
    "Checks",
    "Evidence",
    "Hit",
    "Limit",
    "Trial",
    "backwards_only",
    "diagnose",
    "knock_out",
    "softened",
    "trial",
]
