"""All checks, in the order in which they are told."""

from regard.diagnosis.check import Checks
from regard.diagnosis.checks import (
    behaviour,
    decoding,
    heads,
    portrait,
    roles,
    rows,
    sharing,
)

CHECKS = Checks(
    (
        *portrait.CHECKS,
        *rows.CHECKS,
        *decoding.CHECKS,
        *sharing.CHECKS,
        *heads.CHECKS,
        *behaviour.CHECKS,
        *roles.CHECKS,
    )
)
