"""`answer`: the answer to a question, found in a text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.loading import LoadedModel
from regard.models.spans import ScoredSpan, WindowLogits, search_spans
from regard.tasks.evidence import span_evidence
from regard.tasks.models import AnyModel, TaskModels
from regard.tasks.runs import WindowRun, run_model
from regard.tasks.windows import Stretch, WindowSplitter, check_text
from regard.types import Candidate, InputWindow, TaskResult, Tokens

__all__ = ["answer"]

_ANSWERS = 5  # of a result, besides "no answer"


@overload
def answer(
    question: str,
    context: str,
    model: AnyModel | TaskModels | None = ...,
    *,
    no_answer: bool = ...,
    device: str | None = ...,
    trace: bool = ...,
) -> TaskResult: ...
@overload
def answer(
    question: list[str],
    context: str | list[str],
    model: AnyModel | TaskModels | None = ...,
    *,
    no_answer: bool = ...,
    device: str | None = ...,
    trace: bool = ...,
) -> list[TaskResult]: ...
@check_first_argument
def answer(
    question: str | list[str],
    context: str | list[str],
    model: AnyModel | TaskModels | None = None,
    *,
    no_answer: bool = True,
    device: str | None = None,
    trace: bool = True,
) -> TaskResult | list[TaskResult]:
    """The answer to a question in the words of a text, with its place in it; a list for a list.

    `context` is the text, or a text for each question. `model` is a question answering model with
    a span head: a folder, a hub name, or what `regard.load` returned; None is the shipped one for
    the language of the text. A long text is read in overlapping windows, whose logits are
    normalised together (Clark and Gardner 2018), so that the score is the probability of the span
    among all spans of the text. The result's `answer` is None where the model finds none likelier
    than "no answer", which models trained on SQuAD 2 point to by the first token; with
    no_answer=False the best span is always returned.
    """
    questions = [question] if isinstance(question, str) else list(question)
    pairs = _pair_up(questions, context)
    if not isinstance(model, TaskModels):
        model = TaskModels("answer", model, device)
    results: dict[int, TaskResult] = {}
    for loaded, indices in model.group([text for _, text in pairs]):
        reader = _Reader(loaded, no_answer=no_answer, trace=trace)
        own = reader.answer([pairs[index] for index in indices])
        results |= dict(zip(indices, own, strict=True))
    return results[0] if isinstance(question, str) else [results[n] for n in range(len(pairs))]


@dataclass(frozen=True)
class _Reader:
    """A model that answers, and how its results are made."""

    loaded: LoadedModel
    no_answer: bool
    trace: bool

    def answer(self, pairs: Sequence[tuple[str, str]]) -> list[TaskResult]:
        """The result of each question with its text."""
        splitter = WindowSplitter(self.loaded)
        stretches = [splitter.split(text, asked) for asked, text in pairs]
        windows = [
            (asked, text[start:stop])
            for (asked, text), own in zip(pairs, stretches, strict=True)
            for start, stop, _ in own
        ]
        runs = run_model(self.loaded, windows, read_span_logits, trace=self.trace)
        ends = [0]
        for own in stretches:
            ends.append(ends[-1] + len(own))
        return [
            _Reading(*pairs[index], stretches[index], runs[start:stop]).result(
                self.loaded, no_answer=self.no_answer
            )
            for index, (start, stop) in enumerate(pairwise(ends))
        ]


def _pair_up(questions: list[str], context: str | list[str]) -> list[tuple[str, str]]:
    """Each question with its text, checked."""
    contexts = [context] * len(questions) if isinstance(context, str) else list(context)
    if len(contexts) != len(questions):
        raise InputError(
            f"expected a context for each of {len(questions)} questions, got {len(contexts)}"
        )
    return [
        (check_text(asked, "a question").strip(), check_text(text, "the context"))
        for asked, text in zip(questions, contexts, strict=True)
    ]


def read_span_logits(output: Any) -> Float[Tensor, "batch token 2"]:
    """The logits of start and end, in the last axis, from what a model returned."""
    if isinstance(output, Tensor):
        return output
    return torch.stack([output.start_logits, output.end_logits], dim=-1)


@dataclass(frozen=True, eq=False)
class _Reading:
    """One question, the windows of its text, and what the model did with each of them."""

    question: str
    context: str
    stretches: Sequence[Stretch]
    runs: Sequence[WindowRun]

    def result(self, loaded: LoadedModel, *, no_answer: bool) -> TaskResult:
        """The best answers, those that overlap a better one left out, and where they stand."""
        null = [_no_answer_position(run.tokens, loaded.tokenizer) for run in self.runs]
        places = [_context_positions(run.tokens, len(self.question)) for run in self.runs]
        logits = [
            WindowLogits(run.logits[own], run.logits[first])
            for run, own, first in zip(self.runs, places, null, strict=True)
        ]
        spans, no_answer_log = search_spans(logits, no_answer=no_answer)
        answers = self._distinct_answers(spans, places)
        if not answers:
            raise InputError("no word of the context can be an answer; give a longer text")
        candidates = [candidate for candidate, _ in answers]
        if no_answer:
            none = Candidate(None, math.exp(no_answer_log))
            candidates.insert(sum(each.score >= none.score for each in candidates), none)
        best = answers[0][1]
        trace, own = self.runs[best.window].trace, places[best.window]
        found = own[best.first : best.last + 1] if candidates[0].text else [null[best.window]]
        evidence = span_evidence(trace, tuple(found))
        windows = zip(self.stretches, self.runs, strict=True)
        return TaskResult(
            "answering",
            loaded.name,
            {"question": self.question, "context": self.context},
            tuple(candidates),
            tuple(InputWindow(part.start, part.stop, run.trace) for part, run in windows),
            best.window,
            evidence,
        )

    def _distinct_answers(
        self, spans: Sequence[ScoredSpan], places: Sequence[list[int]]
    ) -> list[tuple[Candidate, ScoredSpan]]:
        """The best spans as candidates, without those that overlap a better one."""
        answers: list[tuple[Candidate, ScoredSpan]] = []
        for span in spans:
            start, stop = self._characters(span, places[span.window])
            taken = (candidate.span or (0, 0) for candidate, _ in answers)
            if start < stop and all(stop <= begin or end <= start for begin, end in taken):
                text, score = self.context[start:stop], math.exp(span.log_probability)
                answers.append((Candidate(text, score, (start, stop)), span))
            if len(answers) == _ANSWERS:
                break
        return answers

    def _characters(self, span: ScoredSpan, places: list[int]) -> tuple[int, int]:
        """The characters of the context that a span covers, without white space at its ends."""
        offsets = self.runs[span.window].tokens.offsets
        assert offsets is not None
        shift = self.stretches[span.window].start - len(self.question)
        start = offsets[places[span.first]][0] + shift
        stop = offsets[places[span.last]][1] + shift
        text = self.context[start:stop]
        return start + len(text) - len(text.lstrip()), stop - len(text) + len(text.rstrip())


def _context_positions(tokens: Tokens, question: int) -> list[int]:
    """The positions of the tokens of the text: offsets of a pair count on from the question."""
    special, offsets = tokens.special or (False,) * len(tokens), tokens.offsets or ()
    return [
        position
        for position, (start, stop) in enumerate(offsets)
        if start >= question and stop > start and not special[position]
    ]


def _no_answer_position(tokens: Tokens, tokenizer: Any) -> int:
    """The position of the token that stands for "no answer": [CLS], else the first."""
    marker = getattr(tokenizer, "cls_token_id", None)
    return tokens.ids.index(marker) if tokens.ids and marker in tokens.ids else 0
