"""The model of a task: the one that the caller names, or the default one that is shipped."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from regard.errors import InputError
from regard.loading import LoadedModel, load

__all__ = ["DEFAULT_MODELS", "AnyModel", "task_model"]

AnyModel = str | Path | LoadedModel
Task = Literal["classify", "answer", "translate", "summarise"]

# The shipped model of each task that has one. This is the only place that names them: the functions
# and the commands ask `task_model`.
DEFAULT_MODELS: Mapping[Task, str] = MappingProxyType(
    {"translate": "en-zh-transformer", "summarise": "summaries-en"}
)

# What a model has to be able to do, as a sentence says it, and the class of transformers that can.
_NEEDS: Mapping[Task, tuple[str, str]] = {
    "classify": ("gives texts no classes", "ForSequenceClassification"),
    "answer": ("finds no answers in texts", "ForQuestionAnswering"),
    "translate": ("is no translator that regard's own classes load", "Marian"),
    "summarise": ("writes no text about another one", "BART, T5, Pegasus or PointerGenerator"),
}


def task_model(task: Task, model: AnyModel | None, device: str | None = None) -> LoadedModel:
    """The loaded model of a task; an InputError if it is for another task or none is named."""
    if model is None:
        if task not in DEFAULT_MODELS:
            raise InputError(
                f"no model for {task} is shipped with this version; name one with model=, the "
                f"folder or hub name of a {_NEEDS[task][1]} model"
            )
        model = DEFAULT_MODELS[task]
    if isinstance(model, LoadedModel):
        if device is not None:
            raise InputError("device= is for a model that is named; this one is loaded already")
        loaded = model
    else:
        loaded = load(model, device=device)
    _check_task(task, loaded)
    loaded.tokenizer  # noqa: B018  refuses a model without one
    return loaded


def _check_task(task: Task, loaded: LoadedModel) -> None:
    """Refuse a model that is made for something else."""
    reads_texts = not loaded.sees and not loaded.hears
    able = {
        "classify": loaded.classifies and bool(loaded.labels),
        "answer": loaded.answers,
        "translate": loaded.translates and loaded.native,
        "summarise": loaded.translates,
    }[task]
    # a model that labels each token has classes too, but none for the text
    labels_tokens = type(loaded.model).__name__.endswith("ForTokenClassification")
    if not able or not reads_texts or labels_tokens:
        phrase, kind = _NEEDS[task]
        raise InputError(
            f"{loaded.name} ({type(loaded.model).__name__}) {phrase}; name a {kind} model"
        )
