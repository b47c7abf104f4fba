"""`translate`: a text in another language, with the attention between the two."""

from typing import Any, overload

from regard.arguments import check_first_argument
from regard.loading import LoadedModel, fit_text
from regard.models.generation import generate
from regard.tasks.models import DEFAULT_MODELS, AnyModel, task_model
from regard.tasks.windows import check_text
from regard.tracing import capture
from regard.types import Candidate, InputWindow, TaskResult, Trace

__all__ = ["translate"]

_BATCH = 16  # texts that are translated together


@overload
def translate(
    text: str,
    model: AnyModel | None = ...,
    *,
    device: str | None = ...,
    trace: bool = ...,
    **settings: Any,
) -> TaskResult: ...
@overload
def translate(
    text: list[str],
    model: AnyModel | None = ...,
    *,
    device: str | None = ...,
    trace: bool = ...,
    **settings: Any,
) -> list[TaskResult]: ...
@check_first_argument
def translate(
    text: str | list[str],
    model: AnyModel | None = None,
    *,
    device: str | None = None,
    trace: bool = True,
    **settings: Any,
) -> TaskResult | list[TaskResult]:
    """The translation of a text, with its score and the trace; a list for a list.

    `model` is a translator that regard's own classes load; the default is the shipped
    "en-zh-transformer". The settings are those of `regard.models.generation.generate`, such as
    num_beams=5; with num_return_sequences=3 the result has alternatives. The score is the
    log-probability of the translation per token. For the trace the model reads the source and its
    translation once more, without searching. A text that is longer than the model's context is
    refused: give it in parts.

    >>> import regard
    >>> regard.translate("I love you", device="cpu")
    <TaskResult of translation by en-zh-transformer: '我爱你' (-0.105)>
    """
    default = DEFAULT_MODELS["translate"]["en"]
    loaded = task_model("translate", default if model is None else model, device)
    texts = [text] if isinstance(text, str) else list(text)
    for one in texts:
        fit_text(loaded, check_text(one, "a text"))
    results = [
        result
        for start in range(0, len(texts), _BATCH)
        for result in _translate_batch(loaded, texts[start : start + _BATCH], settings, trace=trace)
    ]
    return results[0] if isinstance(text, str) else results


def _translate_batch(
    loaded: LoadedModel, texts: list[str], settings: dict[str, Any], *, trace: bool
) -> list[TaskResult]:
    """The results of some texts that are translated together."""
    tokenizer = loaded.tokenizer
    generated = generate(loaded.model, [tokenizer.encode(text) for text in texts], **settings)
    candidates = [
        Candidate(tokenizer.decode(ids, skip_special_tokens=True), score)
        for ids, score in zip(generated, generated.scores.tolist(), strict=True)
    ]
    each = len(candidates) // len(texts)  # more than one with num_return_sequences
    results = []
    for index, text in enumerate(texts):
        own = tuple(candidates[index * each : (index + 1) * each])
        window = InputWindow(0, len(text), _trace(loaded, text, own[0].text) if trace else None)
        results.append(TaskResult("translation", loaded.name, {"text": text}, own, (window,)))
    return results


def _trace(loaded: LoadedModel, text: str, translation: str | None) -> Trace | None:
    """The trace of the model that reads the text and writes this translation; None without one."""
    if not translation:
        return None
    return capture(loaded.model, loaded.processor, text, target=translation)
