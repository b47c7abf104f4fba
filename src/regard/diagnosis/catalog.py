"""All checks, in the order in which findings of one severity are listed."""

from regard.diagnosis.check import Checks
from regard.diagnosis.checks import (
    head_similarity,
    heads,
    model_runs,
    roles,
    rows,
    summaries,
    translations,
)

CHECKS = Checks(
    (
        *summaries.CHECKS,
        *rows.CHECKS,
        *translations.CHECKS,
        *head_similarity.CHECKS,
        *heads.CHECKS,
        *model_runs.CHECKS,
        *roles.CHECKS,
    )
)
