"""`diagnose`: runs all checks over the traces of a model and returns the findings by severity."""

from collections.abc import Callable, Sequence
from typing import Any

from regard.arguments import check_first_argument
from regard.diagnosis.catalog import CHECKS
from regard.diagnosis.check import Check
from regard.diagnosis.declarations import Expectation
from regard.diagnosis.evidence import Evidence
from regard.types import Trace
from regard.types.finding import SEVERITIES, Finding


@check_first_argument
def diagnose(
    traces: Trace | Sequence[Trace],
    model: Any = None,
    *,
    processor: Any = None,
    texts: Any = None,
    expect: Expectation | Sequence[Expectation] | None = None,
    checks: Sequence[Check] = tuple(CHECKS.values()),
    on_progress: Callable[[str], None] = lambda check: None,
) -> list[Finding]:
    """The findings about a model's attention: bugs first, then warnings, then observations.

    All traces are of one model; the number of a head is its mean over them. The `model` declares
    whether it is causal and how long its texts may be. If the `texts` of the traces are passed, and
    their `processor` if it is not `model.tokenizer`, the model is run again on changed texts, to
    test whether attention explains its output. `expect` declares what the config does not: "causal"
    (no token attends to later ones), "hard" (each row chooses one key), "partial" (rows may sum to
    less than one). `on_progress` is called with the name of each check before it runs.

    >>> import torch, regard
    >>> from regard.diagnosis import diagnose
    >>> weights = torch.full((1, 11, 11), 1 / 11)
    >>> trace = regard.Trace.from_weights(weights, list("abcdefghijk"))
    >>> [(finding.check, finding.severity) for finding in diagnose(trace)]
    [('uniform', 'warning'), ('summary-encoder', 'observation')]
    """
    evidence = Evidence(
        (traces,) if isinstance(traces, Trace) else tuple(traces),
        model,
        processor if processor is not None else getattr(model, "tokenizer", None),
        () if texts is None else (texts,) if isinstance(texts, str) else tuple(texts),
        frozenset([expect] if isinstance(expect, str) else expect or ()),
    )
    findings = list[Finding]()
    for check in checks:
        on_progress(check.name)
        findings += check.findings(evidence)
    # a stable sort: within a severity the order of the checks stays
    return sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))
