"""`summarise`: a short text about a long one, with what was copied and how the text was covered."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import torch

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.loading import LoadedModel
from regard.models.generation import generate
from regard.tasks.evidence import summary_evidence
from regard.tasks.models import DEFAULT_MODELS, AnyModel, task_model
from regard.tasks.windows import WindowSplitter, check_text
from regard.tracing import capture
from regard.types import Candidate, Evidence, InputWindow, TaskResult, Trace

__all__ = ["check_english", "join_summaries", "restore_case", "summarise"]

_BATCH = 16  # windows that are summarised together
_LEAST_LATIN = 0.5  # share of the letters of a text that a model of English reads
_WORD = re.compile(r"\w+")
_SENTENCE_START = re.compile(r"(?:^|[.!?:;])\W*$")
_ENDS_SENTENCE = re.compile(r"[.!?。！？]['\"”’)]*$")


class _Part(NamedTuple):
    """The summary of one window, its score, and the share of it that was copied."""

    text: str
    score: float
    trace: Trace | None = None
    evidence: Evidence | None = None
    copied: float | None = None


@overload
def summarise(
    text: str,
    model: AnyModel | None = ...,
    *,
    device: str | None = ...,
    trace: bool = ...,
    **settings: Any,
) -> TaskResult: ...
@overload
def summarise(
    text: list[str],
    model: AnyModel | None = ...,
    *,
    device: str | None = ...,
    trace: bool = ...,
    **settings: Any,
) -> list[TaskResult]: ...
@check_first_argument
def summarise(
    text: str | list[str],
    model: AnyModel | None = None,
    *,
    device: str | None = None,
    trace: bool = True,
    **settings: Any,
) -> TaskResult | list[TaskResult]:
    """The summary of a text, with its score and the trace; a list for a list.

    `model` is a PointerGenerator or any model that writes about a source, such as BART, T5 or
    Pegasus; the default is the shipped "summaries-en", which reads English only. The settings are
    those of generation, such as num_beams=4. The score is the log-probability of the summary per
    token. A text that is longer than the model's context is read in overlapping windows, each of
    which has its own summary; the answer is all of them. For the trace the model reads the window
    and its summary once more; `result.copied` is the share of the summary that was copied.
    """
    loaded = task_model("summarise", model, device)
    texts = [text] if isinstance(text, str) else list(text)
    for one in texts:
        check_text(one, "a text")
    if model is None:
        check_english(texts)
    splitter = WindowSplitter(loaded)
    windows = [(index, cut) for index, one in enumerate(texts) for cut in splitter.split(one)]
    parts: list[_Part] = []
    for start in range(0, len(windows), _BATCH):
        batch = windows[start : start + _BATCH]
        stretches = [texts[index][cut.start : cut.stop] for index, cut in batch]
        parts += _summarise_batch(loaded, stretches, settings, trace=trace)
    results = []
    for index, one in enumerate(texts):
        own = [(cut, part) for (i, cut), part in zip(windows, parts, strict=True) if i == index]
        places = [InputWindow(cut.start, cut.stop, part.trace) for cut, part in own]
        results.append(_result(loaded.name, one, places, [part for _, part in own]))
    return results[0] if isinstance(text, str) else results


def _result(
    name: str, text: str, windows: Sequence[InputWindow], parts: Sequence[_Part]
) -> TaskResult:
    """The result of one text from the summaries of its windows."""
    best = max(range(len(parts)), key=lambda index: parts[index].score)
    different = list(dict.fromkeys(part.text for part in parts if part.text))
    score = sum(part.score for part in parts) / len(parts)
    shares = [part.copied for part in parts if part.copied is not None]
    return TaskResult(
        "summarisation",
        name,
        {"text": text},
        (Candidate(join_summaries(different), score),),
        tuple(windows),
        best,
        parts[best].evidence,
        copied=sum(shares) / len(shares) if shares else None,
    )


def _summarise_batch(
    loaded: LoadedModel, texts: list[str], settings: dict[str, Any], *, trace: bool
) -> list[_Part]:
    """The summaries of some windows."""
    if not loaded.native:
        return [_summarise_by_transformers(loaded, text, settings, trace=trace) for text in texts]
    # a vocabulary of words is extended by those that only these texts have
    tokenizer = loaded.tokenizer.with_words_of(texts)
    generated = generate(
        loaded.model, [tokenizer.encode(text) for text in texts], tokenizer=tokenizer, **settings
    )
    if len(generated) != len(texts):
        raise InputError("summarise keeps one summary of each text; leave num_return_sequences")
    parts = []
    for text, ids, score in zip(texts, generated, generated.scores.tolist(), strict=True):
        written = tokenizer.decode(ids, skip_special_tokens=True).strip()
        part = _Part(restore_case(written, text), score)
        if trace and written:
            part = _with_trace(part, loaded, tokenizer, text, written)
        parts.append(part)
    return parts


def _summarise_by_transformers(
    loaded: LoadedModel, text: str, settings: dict[str, Any], *, trace: bool
) -> _Part:
    """The summary of one window by a model of transformers, with the score of the summary."""
    model, tokenizer = loaded.model, loaded.tokenizer
    specific = getattr(model.config, "task_specific_params", None) or {}
    prefix = specific.get("summarization", {}).get("prefix", "")  # T5 is told its task
    inputs = tokenizer(prefix + text, return_tensors="pt").to(model.device)
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        ids = model.generate(**inputs, **settings)
        written = tokenizer.decode(ids[0], skip_special_tokens=True).strip()
        if not written:
            return _Part("", -torch.inf)
        labels = tokenizer(text_target=written, return_tensors="pt")["input_ids"].to(model.device)
        score = -float(model(**inputs, labels=labels).loss)
    part = _Part(restore_case(written, text), score)
    return _with_trace(part, loaded, loaded.processor, prefix + text, written) if trace else part


def _with_trace(part: _Part, loaded: LoadedModel, processor: Any, text: str, written: str) -> _Part:
    """The summary with the trace of the model that reads the text and writes it."""
    traced = capture(loaded.model, processor, text, target=written)
    shares = None
    if hasattr(loaded.model, "mixture"):
        shares = _copied_shares(loaded.model, processor, text, written)
    evidence, copied = summary_evidence(traced, shares)
    return part._replace(trace=traced, evidence=evidence, copied=copied)


def _copied_shares(model: Any, tokenizer: Any, text: str, written: str) -> list[float]:
    """The share of each token's probability that is from copying; of a pointer-generator."""
    device = next(model.parameters()).device
    source, labels = (
        tokenizer(side, return_tensors="pt")["input_ids"].to(device) for side in (text, written)
    )
    before = model.prepare_decoder_input_ids_from_labels(labels)
    with torch.no_grad():
        shares: list[float] = model.mixture(source, before).copied_share_of(labels)[0].tolist()
    return shares


def restore_case(summary: str, text: str) -> str:
    """A summary in lower case with the capitals that its words have in the text.

    Capitals that only begin a sentence are left out. A summary with capitals stays as it is.

    >>> from regard.tasks.summarisation import restore_case
    >>> restore_case("the nasa of ada", "It was NASA. The ship of Ada flew.")
    'The NASA of Ada'
    """
    if summary != summary.lower() or text == text.lower():
        return summary
    forms: dict[str, Counter[str]] = {}
    for word in _WORD.finditer(text):
        form = word[0]
        begins = _SENTENCE_START.search(text, max(0, word.start() - 4), word.start())
        if begins and form[1:] == form[1:].lower():
            continue
        forms.setdefault(form.lower(), Counter())[form] += 1
    restored = _WORD.sub(
        lambda word: forms[word[0]].most_common(1)[0][0] if word[0] in forms else word[0], summary
    )
    return restored[:1].upper() + restored[1:]


def join_summaries(parts: Sequence[str]) -> str:
    """Summaries of the windows of one text as one text: sentences, or phrases with semicolons.

    >>> from regard.tasks.summarisation import join_summaries
    >>> join_summaries(["It rains.", "A storm", "Sun"])
    'It rains. A storm; Sun'
    """
    joined = "".join(part + (" " if _ENDS_SENTENCE.search(part) else "; ") for part in parts[:-1])
    return joined + "".join(parts[-1:])


def check_english(texts: Sequence[str]) -> None:
    """Refuse texts in another script than English has, which the default model cannot read."""
    for text in texts:
        letters = [character for character in text if character.isalpha()]
        latin = sum(character < "ɐ" for character in letters)  # the end of Latin Extended-B
        if letters and latin < _LEAST_LATIN * len(letters):
            raise InputError(
                f"{DEFAULT_MODELS['summarise']} reads English only, and most letters of "
                f"{text[:40]!r} are of another script; name a model of its language with model="
            )
