"""TaskResult: what a model answered to a person's input, and the trace of how it got there."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

from regard.errors import InputError
from regard.types.attribution import Attribution
from regard.types.trace import Trace

TaskName = Literal[
    "classification", "answering", "translation", "summarisation", "recognition", "transcription"
]
# The key under which the answer of each task stands in JSON.
ANSWER_KEYS: dict[TaskName, str] = {
    "classification": "label",
    "answering": "answer",
    "translation": "translation",
    "summarisation": "summary",
    "recognition": "label",
    "transcription": "text",
}
# Tasks whose candidates are all the labels of a classifier.
_WITH_LABELS = ("classification", "recognition")
_SHOWN = 40  # characters of an answer in a repr


@dataclass(frozen=True)
class Candidate:
    """One answer that a model considered, and its score.

    The score is a probability; for a text that the model wrote it is the log-probability per token.
    `text` is None for "no answer". `span` is the start and stop of the characters of an answer that
    was found in the input.
    """

    text: str | None
    score: float
    span: tuple[int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """The candidate as JSON types."""
        start, stop = self.span or (None, None)
        return {"text": self.text, "score": self.score, "start": start, "end": stop}


class TimedWord(NamedTuple):
    """A word of a sound, with its start and end in seconds."""

    text: str
    start: float
    end: float

    def to_json(self) -> dict[str, Any]:
        """The word as JSON types, with its times to the millisecond."""
        return {"text": self.text, "start": round(self.start, 3), "end": round(self.end, 3)}


@dataclass(frozen=True, eq=False)
class InputWindow:
    """A part of the input that the model read in one run: its characters, and the trace of the run.

    An input that fits into the model's context is one window. Of a sound, start and stop are
    milliseconds. The trace is None after trace=False.
    """

    start: int
    stop: int
    trace: Trace | None = None


@dataclass(frozen=True)
class Evidence:
    """What a picture of a result shows first: the weights of some rows of a map, and some tokens.

    `rows` are those that the answer was computed from, such as that of [CLS]; none is all rows.
    `marked` are the positions, in the stream of the map's columns, of the answer's own tokens. With
    an `attribution` the picture is shaded by its values, where they are positive, and the map only
    says which tokens there are.
    """

    site: str
    rows: tuple[int, ...] = ()
    marked: tuple[int, ...] = ()
    attribution: Attribution | None = None


@dataclass(frozen=True, eq=False)
class TaskResult:
    """The answer of a model to one input, its score, the alternatives, and the trace.

    `candidates` are in descending order of score, so that the first is the answer. `inputs` are the
    texts that were given, by name ("text", or "question" and "context"); "picture" is the name of a
    file, and `picture` that file as the model saw it; "sound" is the name of a file too, of which
    `words` are the words with their times. A long input is read in
    several `windows`; `decisive` is the index of the window that the answer comes from. `source`
    names the file or entry that an answer was found in, and `passage` is the text of that entry if
    it was found in a knowledge base. `copied` is the share of a summary's tokens that were copied
    from the text.

    >>> from regard.types import Candidate, TaskResult
    >>> candidates = (Candidate("positive", 0.75), Candidate("negative", 0.25))
    >>> result = TaskResult("classification", "my-model", {"text": "I love it"}, candidates)
    >>> result
    <TaskResult of classification by my-model: 'positive' (0.75)>
    >>> result.scores
    {'positive': 0.75, 'negative': 0.25}
    """

    task: TaskName
    model: str
    inputs: Mapping[str, str]
    candidates: tuple[Candidate, ...]
    windows: tuple[InputWindow, ...] = ()
    decisive: int = 0
    evidence: Evidence | None = None
    source: str | None = None
    copied: float | None = None
    passage: str | None = None
    picture: bytes | None = None
    words: tuple[TimedWord, ...] = ()

    def __post_init__(self) -> None:
        if not self.candidates:
            raise InputError("TaskResult expected at least one candidate, got none")

    @property
    def answer(self) -> str | None:
        """The label, or the text of the answer; None if the model found that there is none."""
        return self.candidates[0].text

    @property
    def score(self) -> float:
        """The score of the answer."""
        return self.candidates[0].score

    @property
    def span(self) -> tuple[int, int] | None:
        """The start and stop of the answer's characters in the input, if it was found there."""
        return self.candidates[0].span

    @property
    def alternatives(self) -> tuple[Candidate, ...]:
        """The other candidates, in descending order of score."""
        return self.candidates[1:]

    @property
    def scores(self) -> dict[str, float]:
        """The score of each candidate by its text, without "no answer"."""
        return {each.text: each.score for each in self.candidates if each.text is not None}

    @property
    def trace(self) -> Trace:
        """The trace of the window that the answer comes from."""
        trace = self.windows[self.decisive].trace if self.windows else None
        if trace is None:
            raise InputError("this result has no trace; run the task with trace=True")
        return trace

    def to_json(self) -> dict[str, Any]:
        """The result as JSON types, without the traces.

        The answer stands under "label", "answer", "translation" or "summary". A class has the
        scores of all labels, an answer from a text its start and end in characters and its source;
        the text is left out.
        """
        # the context of a question may be a book, and whoever asks has it
        inputs = {name: text for name, text in self.inputs.items() if name != "context"}
        record: dict[str, Any] = {"model": self.model, **inputs}
        record |= {ANSWER_KEYS[self.task]: self.answer, "score": self.score}
        if self.task == "transcription":
            record["words"] = [word.to_json() for word in self.words]
        elif self.task in _WITH_LABELS:
            record["scores"] = self.scores
        else:
            if self.task == "answering":
                start, stop = self.span or (None, None)
                record |= {"start": start, "end": stop, "source": self.source}
                if self.passage is not None:
                    record["passage"] = self.passage
            if self.task == "summarisation":
                record["copied"] = self.copied
            record["alternatives"] = [candidate.to_json() for candidate in self.alternatives]
        return record | {"windows": len(self.windows)}

    def _repr_html_(self) -> str:
        """The candidates with their scores as a table; `regard.view` draws what they are based on.

        This is what a notebook shows.
        """
        rows = "".join(
            f"<tr><td>{escape('no answer' if each.text is None else each.text)}</td>"
            f"<td>{each.score:.3g}</td></tr>"
            for each in self.candidates
        )
        head = f"<tr><th>{ANSWER_KEYS[self.task]}</th><th>score</th></tr>"
        return f"<table><caption>{escape(self.model)}</caption>{head}{rows}</table>"

    def __repr__(self) -> str:
        answer = self.answer
        if answer is None:
            shown = "no answer"
        else:
            shown = repr(answer if len(answer) <= _SHOWN else f"{answer[: _SHOWN - 1]}…")
        return f"<TaskResult of {self.task} by {self.model}: {shown} ({self.score:.3g})>"
