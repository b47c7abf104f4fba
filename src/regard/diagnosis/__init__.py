"""Diagnosis: from numbers to findings, each a sentence with a number, its limit and a remedy.

`diagnose` runs a list of checks over the traces of one model. A head that attends evenly to all
eleven tokens of a text is reported like this::

    >>> import torch, regard
    >>> from regard.diagnosis import CHECKS, diagnose
    >>> trace = regard.Trace.from_weights(torch.full((1, 11, 11), 1 / 11), list("abcdefghijk"))
    >>> finding = diagnose(trace, checks=[CHECKS["uniform"]])[0]
    >>> finding.check, finding.severity, round(finding.value, 3), finding.limit
    ('uniform', 'warning', 1.0, 0.976)

What calls what: `diagnose` builds an `Evidence` (`evidence.py`: the traces site by site, and what
the model declares about itself, from `declarations.py`) and passes it to the `find` function of
each `Check`. A check yields a `Hit` for every number beyond its limit, and turns it into a finding
with the sentences of `regard.text`. The checks are in `checks/`, one file per subject:

- `rows`: invalid numbers, sums, padding, the future, one-hot rows, texts that are too long;
- `heads`: silent, uniform, constant heads, sinks; `head_similarity`: copies, collapsed layers;
- `translations`: dropped and repeated source words; `roles`, `summaries`: what heads do;
- `model_runs`: checks that run the model again, through `studies`.

`limits.py` has every limit with its source, and `catalog.py` all checks in order: what lists checks
is derived from it. docs/howto/add-check.md adds one step by step.
"""

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
