"""`diagnose`: traces in, findings out, the worst first."""

from collections.abc import Callable, Sequence
from typing import Any

from regard.diagnosis.catalog import CHECKS
from regard.diagnosis.check import Check
from regard.diagnosis.declarations import Expectation
from regard.diagnosis.evidence import Evidence
from regard.types import Trace
from regard.types.finding import SEVERITIES, Finding


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
    """What deserves a sentence about a model's attention: bugs, warnings, then observations.

    Traces are of one model; numbers of heads are means over all of them. The `model` tells what is
    declared of it: whether it is causal, how long its texts may be. With the `texts` that the
    traces are of, and their `processor` if it is not `model.tokenizer`, the model is run again, to
    learn whether attention explains what it says. `expect` declares what no config does: "causal"
    (no token sees later ones), "hard" (one key at a time is meant), "partial" (rows that sum to
    less than one are meant). `on_progress` hears the name of each check before it runs.

    >>> import torch, regard
    >>> from regard.diagnosis import diagnose
    >>> weights = torch.full((1, 11, 11), 1 / 11)
    >>> trace = regard.Trace.from_weights(weights, list("abcdefghijk"))
    >>> [(each.check, each.severity) for each in diagnose(trace)]
    [('uniform', 'warning'), ('summary-encoder', 'observation')]
    """
    evidence = Evidence(
        (traces,) if isinstance(traces, Trace) else tuple(traces),
        model,
        processor if processor is not None else getattr(model, "tokenizer", None),
        () if texts is None else (texts,) if isinstance(texts, str) else tuple(texts),
        frozenset([expect] if isinstance(expect, str) else expect or ()),
    )
    found = list[Finding]()
    for check in checks:
        on_progress(check.name)
        found += check.findings(evidence)
    # a stable sort: within a severity the order of the checks stays
    return sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))
