"""`recognise`: the class of a picture, and where on the picture it was seen."""

from typing import Any, overload

from regard.loading import LoadedModel
from regard.tasks.classification import read_class_logits
from regard.tasks.models import AnyModel, named_model
from regard.tasks.pictures import picture_evidence, read_input_picture
from regard.tasks.runs import run_picture
from regard.types import Candidate, InputWindow, TaskResult

__all__ = ["recognise"]


@overload
def recognise(
    image: list[Any],
    model: AnyModel | None = ...,
    *,
    device: str | None = ...,
    trace: bool = ...,
) -> list[TaskResult]: ...
@overload
def recognise(
    image: Any, model: AnyModel | None = ..., *, device: str | None = ..., trace: bool = ...
) -> TaskResult: ...
def recognise(
    image: object, model: AnyModel | None = None, *, device: str | None = None, trace: bool = True
) -> TaskResult | list[TaskResult]:
    """The class of a picture, with the probability of each class and the trace; a list for a list.

    `image` is the path of a picture, a Pillow image, or an array of bytes (height width 3). `model`
    is an image classifier (ViT, ConvNeXt, ResNet, ...) or one of ours: a folder, a hub name, or
    what `regard.load` returned, which saves loading it for each call. Where a model gives several
    labels to a picture, each has a probability of its own. With trace=False the run is not watched,
    which is faster.
    """
    loaded = named_model("recognise", model, device)
    images = image if isinstance(image, list) else [image]
    results = [_recognise_picture(loaded, one, trace=trace) for one in images]
    return results if isinstance(image, list) else results[0]


def _recognise_picture(loaded: LoadedModel, image: Any, *, trace: bool) -> TaskResult:
    """The result of one picture."""
    picture = read_input_picture(image, loaded.processor)
    run = run_picture(loaded, picture.image, read_class_logits, trace=trace)
    logits = run.logits.double()
    independent = loaded.multi_label or len(loaded.labels) == 1
    probabilities = logits.sigmoid() if independent else logits.softmax(-1)
    order = probabilities.argsort(descending=True, stable=True).tolist()
    return TaskResult(
        "recognition",
        loaded.name,
        {"picture": picture.name},
        tuple(Candidate(loaded.labels[label], float(probabilities[label])) for label in order),
        (InputWindow(0, 1, run.trace),),
        evidence=picture_evidence(run.trace),
        picture=picture.file,
    )
