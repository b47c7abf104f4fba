"""`classify`: the class of a text, such as its sentiment or topic."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.loading import LoadedModel
from regard.tasks.evidence import class_evidence, explained_evidence
from regard.tasks.models import AnyModel, Subject, TaskModels
from regard.tasks.runs import WindowRun, run_model
from regard.tasks.windows import Stretch, WindowSplitter, check_text
from regard.types import Candidate, InputWindow, TaskResult

__all__ = ["classify"]


@overload
def classify(
    text: str,
    model: AnyModel | TaskModels | None = ...,
    *,
    task: Subject | None = ...,
    device: str | None = ...,
    trace: bool = ...,
) -> TaskResult: ...
@overload
def classify(
    text: list[str],
    model: AnyModel | TaskModels | None = ...,
    *,
    task: Subject | None = ...,
    device: str | None = ...,
    trace: bool = ...,
) -> list[TaskResult]: ...
@check_first_argument
def classify(
    text: str | list[str],
    model: AnyModel | TaskModels | None = None,
    *,
    task: Subject | None = None,
    device: str | None = None,
    trace: bool = True,
) -> TaskResult | list[TaskResult]:
    """The class of a text, with the probability of each class and the trace; a list for a list.

    Without a `model` a shipped one for the `task`, "sentiment" or "topic", and the language of each
    text is taken. `model` is a sequence classification model: a folder, a hub name, or what
    `regard.load` returned, which saves loading it for each call. A text that is longer than the
    model's context is read in overlapping windows, and its probabilities are the mean over the
    windows, weighted by their numbers of tokens. Where a model gives several labels to a text, each
    has a probability of its own. With trace=False the run is not watched, which is faster.
    """
    texts = [text] if isinstance(text, str) else list(text)
    for one in texts:
        check_text(one, "a text")
    if not isinstance(model, TaskModels):
        model = TaskModels("classify", model, device, subject=task)
    results: dict[int, TaskResult] = {}
    for loaded, indices in model.group(texts):
        own = _classify_texts(loaded, [texts[index] for index in indices], trace=trace)
        results |= dict(zip(indices, own, strict=True))
    return results[0] if isinstance(text, str) else [results[n] for n in range(len(texts))]


def _classify_texts(loaded: LoadedModel, texts: list[str], *, trace: bool) -> list[TaskResult]:
    """The results of texts by one model."""
    splitter = WindowSplitter(loaded)
    stretches = [splitter.split(one) for one in texts]
    windows = [
        one[start:stop] for one, own in zip(texts, stretches, strict=True) for start, stop, _ in own
    ]
    runs = run_model(loaded, windows, read_class_logits, trace=trace)
    ends = [0]
    for own in stretches:
        ends.append(ends[-1] + len(own))
    return [
        _text_result(loaded, texts[index], stretches[index], runs[start:stop])
        for index, (start, stop) in enumerate(pairwise(ends))
    ]


def read_class_logits(output: Any) -> Float[Tensor, "batch label"]:
    """The logits of the classes from what a model returned: a tensor, or an output with logits."""
    logits: Tensor = output if isinstance(output, Tensor) else output.logits
    return logits


def _text_result(
    loaded: LoadedModel, text: str, stretches: Sequence[Stretch], runs: Sequence[WindowRun]
) -> TaskResult:
    """The result of one text from the runs of its windows."""
    logits = torch.stack([run.logits for run in runs]).double()
    # a model with one label gives the probability that it holds
    independent = loaded.multi_label or len(loaded.labels) == 1
    by_window = logits.sigmoid() if independent else logits.softmax(-1)
    weights = torch.tensor([float(stretch.tokens) for stretch in stretches]).double()
    probabilities = (weights / weights.sum()) @ by_window
    order = probabilities.argsort(descending=True, stable=True).tolist()
    decisive = int(by_window[:, order[0]].argmax())
    run, stretch = runs[decisive], stretches[decisive]
    evidence = class_evidence(run.trace, run.tokens)
    part = text[stretch.start : stretch.stop]
    return TaskResult(
        "classification",
        loaded.name,
        {"text": text},
        tuple(Candidate(loaded.labels[label], float(probabilities[label])) for label in order),
        tuple(
            InputWindow(stretch.start, stretch.stop, run.trace)
            for stretch, run in zip(stretches, runs, strict=True)
        ),
        decisive,
        explained_evidence(evidence, loaded, part, run.tokens),
    )
