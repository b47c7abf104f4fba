"""The picture of a task's result: its text, shaded by what the answer was computed from.

To the trace of the result a map is added whose only row is the answer itself:

    positive   [CLS]  I  love  this  film  [SEP]
               0.02  .1   .51   .04   .21   .12     <- row [CLS] of the last layer, for each head

Its weights are the rows of `result.evidence`, their mean if there are several, or the positive part
of its attribution, as shares of their sum. Highlighted text of
that map is the default picture; all maps of the trace can be reached from it.
"""

from dataclasses import replace
from typing import Unpack

from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.text import say
from regard.types import (
    AttentionMap,
    Attribution,
    Axis,
    DenseWeights,
    Evidence,
    TaskResult,
    Tokens,
    Trace,
)
from regard.views.captions import percent
from regard.views.functions import ViewOptions, make_view, overlay
from regard.views.outputs import View
from regard.views.scene.build import mark_tokens, name_aggregate

__all__ = ["heard_trace", "picture_view", "result_title", "result_trace", "result_view"]

ANSWER_STREAM = "answer"
_SECONDS = " s"  # after the time of a frame
_LONGEST_INPUT = 120  # characters of a question or source in a title


def result_view(result: TaskResult, **options: Unpack[ViewOptions]) -> View:
    """The text of a result, shaded by the weights of its answer, whose own words are underlined."""
    trace, site = result_trace(result, options.get("language"))
    evidence = result.evidence
    assert evidence is not None
    stream = trace[site].columns.stream
    defaults: ViewOptions = {
        "title": result_title(result, options.get("language")),
        "unit": "word",
        "hide": ("special",) if _has_words(trace, site) else (),
    }
    drawn = make_view(
        (trace,), {**defaults, **options}, view="highlight", site=site, place=0, depth="layer"
    )
    scene = mark_tokens(drawn.scene, stream, evidence.marked)
    if evidence.attribution is not None:
        scene = name_aggregate(scene, site)
    return View(scene, drawn.state)


def picture_view(
    result: TaskResult, head: int | None = None, **options: Unpack[ViewOptions]
) -> View:
    """The picture of a result under the weights of its answer: of one row, or of every token."""
    evidence = _check_evidence(result)
    title: ViewOptions = {"title": result_title(result, options.get("language"))}
    chosen: ViewOptions = {**title, **options}
    drawn = overlay(result.trace, result.picture, evidence.site, head, **chosen)
    return drawn.with_state(place=evidence.rows[0]) if len(evidence.rows) == 1 else drawn


def heard_trace(result: TaskResult) -> Trace:
    """The trace of a transcript without the silence with which its sound was filled up.

    Whisper reads 30 seconds, however short the sound is. The frames are called by their time.
    """
    trace, stop = result.trace, result.windows[result.decisive].stop / 1000
    for name, tokens in trace.streams.items():
        if tokens.texts and all(text.endswith(_SECONDS) for text in tokens.texts):
            times = [float(text.removesuffix(_SECONDS)) for text in tokens.texts]
            return trace.part(name, 0, max(1, sum(time < stop for time in times)))
    return trace


def _check_evidence(result: TaskResult) -> Evidence:
    """The evidence of a result; an InputError says why there is none."""
    if result.evidence is None:
        gaps = "; ".join(f"{gap.site}: {gap.reason}" for gap in result.trace.gaps)
        raise InputError(
            f"this result has no attention that can be shown{f' ({gaps})' if gaps else ''}"
        )
    return result.evidence


def result_trace(result: TaskResult, language: str | None = None) -> tuple[Trace, str]:
    """The trace of a result with a map for its answer, and the name of that map's site."""
    trace, evidence = result.trace, _check_evidence(result)
    shown, attribution = trace[evidence.site], evidence.attribution
    if attribution is None:
        rows = list(evidence.rows or range(len(shown.rows)))
        weights, name = shown.weights()[:, rows].mean(1, keepdim=True), shown.site
    else:
        weights = _shares(attribution)[list(shown.columns.positions)][None, None]
        name = attribution.method
    site = f"{name} → {ANSWER_STREAM}"
    answer = result.answer or say("result.no-answer", language)
    added_stream = Tokens((answer,), words=(0,), special=(False,))
    row = Axis(ANSWER_STREAM, (0,))
    added = AttentionMap(site, "cross", row, shown.columns, DenseWeights(weights))
    read = shown.columns.stream
    # only a model that read question and text together has both in one stream
    asked = result.inputs.get("question" if "context" in result.inputs else "read")
    separated = _separate_question(trace.streams[read], asked)
    streams = {**trace.streams, read: separated, ANSWER_STREAM: added_stream}
    return replace(trace, streams=streams, maps=(*trace.maps, added)), site


def result_title(result: TaskResult, language: str | None = None) -> str:
    """The answer and its probability in one line, after the question if there is one.

    A summary has the share of it that was copied instead.
    """
    if result.task == "summarisation":
        summary, copied = result.answer or "", result.copied
        if copied is None:
            return summary
        return say("result.copied", language, summary=summary, share=percent(copied))
    answer = result.answer or say("result.no-answer", language)
    scored = f"{answer} ({percent(result.score)})"
    attribution = None if result.evidence is None else result.evidence.attribution
    if attribution is not None:
        scored += say(f"result.by-{attribution.method}", language)
    question = result.inputs.get("question")
    if question is None:
        return scored
    short = question if len(question) <= _LONGEST_INPUT else f"{question[: _LONGEST_INPUT - 1]}…"
    return f"{short} → {scored}"


def _shares(attribution: Attribution) -> Float[Tensor, " token"]:
    """The positive values of an attribution as shares of their sum; zeros if there are none."""
    positive = attribution.values.nan_to_num(nan=0.0).clamp_min(0.0).float()
    total = positive.sum()
    return positive / total if total > 0 else positive


def _separate_question(tokens: Tokens, question: str | None) -> Tokens:
    """The tokens with a space between question and text, whose offsets count on from it."""
    if question is None or tokens.offsets is None:
        return tokens
    end = len(question)
    moved = ((a + 1, b + 1) if a >= end and b > a else (a, b) for a, b in tokens.offsets)
    return replace(tokens, offsets=tuple(moved))


def _has_words(trace: Trace, site: str) -> bool:
    """True if a map has a column that is no special token, so that the others may be hidden."""
    columns = trace[site].columns
    special = trace.streams[columns.stream].special
    return special is None or not all(special[position] for position in columns.positions)
