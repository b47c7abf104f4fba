import torch

import regard
from diagnosis.faults import ENCODER, at, even, in_head, traced, translator
from regard.diagnosis import CHECKS, diagnose
from regard.types import Trace


def test_checks_are_told_before_they_run():
    heard = []
    trace = Trace.from_weights(torch.eye(5)[None], list("abcde"))
    diagnose(trace, checks=[CHECKS["sums"], CHECKS["leak"]], on_progress=heard.append)
    assert heard == ["sums", "leak"]


def test_the_call_of_a_finding_can_be_run_as_it_stands():
    model = translator()
    traces = traced(at(ENCODER, in_head(2, even)))
    (found,) = diagnose(traces, model, checks=[CHECKS["uniform"]])
    known = {"model": model, "processor": model.tokenizer, "texts": ["I love you"]}
    tried = eval(found.remedy_code, {"regard": regard} | known)  # noqa: S307  our own code
    assert tried.objective == "generated text"
    assert tried.after[0][ENCODER].weights(2).sum() == 0


def test_every_call_of_the_catalog_is_an_expression():
    fields = {"site": "h.0", "head": 3, "heads": 5, "example": 1}
    for check in CHECKS.values():
        if check.call is not None:
            compile(check.call.format(**fields), check.name, "eval")
