"""The model of a task: the one that the caller names, or the shipped one for a text's language."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from regard.errors import InputError, UnknownNameError
from regard.loading import LoadedModel, load
from regard.models import shipped_models
from regard.tasks.languages import Language, recognise_language

__all__ = [
    "DEFAULT_MODELS",
    "SUBJECTS",
    "AnyModel",
    "Subject",
    "TaskModels",
    "default_model",
    "named_model",
    "task_model",
]

AnyModel = str | Path | LoadedModel
Task = Literal["classify", "answer", "translate", "summarise", "recognise", "transcribe"]
Subject = Literal["sentiment", "topic"]

# What a classifier can tell; the first is the default.
SUBJECTS: tuple[Subject, ...] = ("sentiment", "topic")

# The default models by task, or by the subject of a classifier, and by language. This is the only
# place that names them; those that are not in this version's zoo are as if they were not here.
DEFAULT_MODELS: Mapping[str, Mapping[Language, str]] = MappingProxyType(
    {
        "sentiment": {"en": "sentiment-en", "zh": "sentiment-zh"},
        "topic": {"en": "topics-en", "zh": "topics-zh"},
        "answer": {"en": "answers-en", "zh": "answers-zh"},
        "translate": {"en": "en-zh-transformer"},
        "summarise": {"en": "summaries-en"},
    }
)

_LANGUAGES: Mapping[Language, str] = {"en": "English", "zh": "Chinese"}
# What a model has to be able to do, as a sentence says it, and the class of transformers that can.
_NEEDS: Mapping[str, tuple[str, str]] = {
    "classify": ("gives texts no classes", "ForSequenceClassification"),
    "answer": ("finds no answers in texts", "ForQuestionAnswering"),
    "translate": ("is no translator that regard's own classes load", "Marian"),
    "summarise": ("writes no text about another one", "BART, T5, Pegasus or PointerGenerator"),
    "recognise": ("gives pictures no classes", "ForImageClassification"),
    "transcribe": ("writes no text about a sound", "Whisper or ForCTC"),
}
_READS_TEXTS = ("classify", "answer", "translate", "summarise")


class TaskModels:
    """The models that do a task: the one that was named, or the default ones, each loaded once.

    A `subject` ("sentiment" or "topic") chooses among the default classifiers; it may also be given
    in place of the model's name.
    """

    def __init__(
        self,
        task: Task,
        model: AnyModel | None = None,
        device: str | None = None,
        *,
        subject: str | None = None,
    ) -> None:
        if subject is not None and subject not in SUBJECTS:
            raise UnknownNameError("task of classify", subject, SUBJECTS)
        named = _as_subject(task, model)
        if model is not None and named is None and subject is not None:
            raise InputError("task= is for the shipped models; leave it out where model= is named")
        if named is not None and subject not in (None, named):
            raise InputError(f"model={model!r} and task={subject!r} contradict each other")
        self._task, self._device = task, device
        self._key = subject or named or (SUBJECTS[0] if task == "classify" else str(task))
        self._loaded: dict[str, LoadedModel] = {}
        self._named = None if model is None or named else task_model(task, model, device)

    def for_text(self, text: str) -> LoadedModel:
        """The model for a text; an InputError if no shipped one reads its language."""
        if self._named is not None:
            return self._named
        name = default_model(self._key, text)
        if name not in self._loaded:
            self._loaded[name] = task_model(self._task, name, self._device)
        return self._loaded[name]

    def group(self, texts: Sequence[str]) -> Iterator[tuple[LoadedModel, list[int]]]:
        """Each model that some of the texts need, with the indices of these texts."""
        groups: dict[int, tuple[LoadedModel, list[int]]] = {}
        members: dict[int, list[int]] = defaultdict(list)
        for index, text in enumerate(texts):
            loaded = self.for_text(text)
            groups[id(loaded)] = (loaded, members[id(loaded)])
            members[id(loaded)].append(index)
        yield from groups.values()


def default_model(key: str, text: str) -> str:
    """The name of the shipped model for a task or subject and the language of a text."""
    known = {
        language: name
        for language, name in DEFAULT_MODELS.get(key, {}).items()
        if name in shipped_models()
    }
    if not known:
        raise InputError(_no_model(key))
    language = recognise_language(text)
    if language not in known:
        readable = " and ".join(_LANGUAGES[each] for each in known)
        raise InputError(
            f"the shipped models for {key} read {readable}, and {text.strip()[:20]!r} is in "
            "another language; name a model with model="
        )
    return known[language]


def _as_subject(task: Task, model: AnyModel | None) -> str | None:
    """The subject that stands in place of a model's name, unless a folder has that name."""
    subject = model if task == "classify" and isinstance(model, str) else None
    return subject if subject in SUBJECTS and not Path(subject).exists() else None


def task_model(task: Task, model: AnyModel, device: str | None = None) -> LoadedModel:
    """A model of a task, loaded; an InputError if it is for another task."""
    if isinstance(model, LoadedModel):
        if device is not None:
            raise InputError("device= is for a model that is named; this one is loaded already")
        loaded = model
    else:
        loaded = load(model, device=device)
    _check_task(task, loaded)
    if task in _READS_TEXTS:
        loaded.tokenizer  # noqa: B018  refuses a model without one
    elif loaded.processor is None:
        raise InputError(
            f"{loaded.name} does not say how it reads its input; a folder that does holds "
            "preprocessor_config.json"
        )
    return loaded


def named_model(task: Task, model: AnyModel | None, device: str | None = None) -> LoadedModel:
    """The model of a task for which none is shipped; an InputError if none is named."""
    if model is None:
        raise InputError(_no_model(task))
    return task_model(task, model, device)


def _no_model(key: str) -> str:
    """The sentence that says which model to name."""
    kind = _NEEDS.get(key, _NEEDS["classify"])[1]
    return (
        f"no model for {key} is shipped with this version; name one with model=, the "
        f"folder or hub name of a {kind} model"
    )


def _transcribes(model: Any) -> bool:
    """True for a Whisper that generates, and for a model with a CTC head."""
    is_whisper = getattr(model.config, "model_type", None) == "whisper"
    is_ctc = type(model).__name__.endswith("ForCTC")
    return is_ctc or (is_whisper and callable(getattr(model, "generate", None)))


def _check_task(task: Task, loaded: LoadedModel) -> None:
    """Refuse a model that is made for something else."""
    reads_texts = not loaded.sees and not loaded.hears
    able = {
        "classify": loaded.classifies and bool(loaded.labels),
        "answer": loaded.answers,
        "translate": loaded.translates and loaded.native,
        "summarise": loaded.translates,
        "recognise": loaded.classifies and bool(loaded.labels) and loaded.sees,
        "transcribe": loaded.hears and _transcribes(loaded.model),
    }[task]
    # a model that labels each token has classes too, but none for the text
    labels_tokens = type(loaded.model).__name__.endswith("ForTokenClassification")
    if not able or (task in _READS_TEXTS and not reads_texts) or labels_tokens:
        phrase, kind = _NEEDS[task]
        raise InputError(
            f"{loaded.name} ({type(loaded.model).__name__}) {phrase}; name a {kind} model"
        )
