"""`answer`: the answer to a question, found in a text or in a knowledge base."""

from pathlib import Path
from typing import Any, overload

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.tasks import answering
from regard.tasks.knowledge.answers import BaseAnswerer
from regard.tasks.knowledge.base import KnowledgeBase, open_base
from regard.tasks.models import AnyModel
from regard.types import TaskResult

__all__ = ["BaseQuestions", "answer"]


@overload
def answer(
    question: str,
    context: str | None = ...,
    model: Any = ...,
    *,
    base: str | Path | KnowledgeBase | None = ...,
    no_answer: bool = ...,
    device: str | None = ...,
    trace: bool = ...,
) -> TaskResult: ...
@overload
def answer(
    question: list[str],
    context: str | list[str] | None = ...,
    model: Any = ...,
    *,
    base: str | Path | KnowledgeBase | None = ...,
    no_answer: bool = ...,
    device: str | None = ...,
    trace: bool = ...,
) -> list[TaskResult]: ...
@check_first_argument
def answer(
    question: str | list[str],
    context: str | list[str] | None = None,
    model: Any = None,
    *,
    base: str | Path | KnowledgeBase | None = None,
    no_answer: bool = True,
    device: str | None = None,
    trace: bool = True,
) -> TaskResult | list[TaskResult]:
    """The answer to a question, from a text or from a knowledge base; a list for a list.

    `context` is the text, or a text for each question: the answer is a part of it, found by a
    question answering model (`model`: a folder, a hub name, or what `regard.load` returned; None is
    the shipped one). A long text is read in overlapping windows, whose logits are normalised
    together (Clark and Gardner 2018), so that the score is the probability of the span among all
    spans of the text.

    `base` is a folder of .txt and .md files, a .tsv or .jsonl file of questions and answers, or one
    of triples (subject, relation, object). The result's `source` and `passage` say where the answer
    stands, its score is the probability that it answers the question, and `model` is a Matcher for
    triples, a sentence encoder for answers and a question answering model for texts. An index is
    kept beside the base.

    The result's `answer` is None where "no answer" is likelier; no_answer=False leaves that out.
    """
    if (context is None) == (base is None):
        both = "both" if base is not None else "none"
        raise InputError(f"expected a text (context=) or a knowledge base (base=), got {both}")
    if context is not None:
        answer_from_text: Any = (
            answering.answer
        )  # its overloads pair one with one, lists with lists
        found: TaskResult | list[TaskResult] = answer_from_text(
            question, context, model, no_answer=no_answer, device=device, trace=trace
        )
        return found
    assert base is not None
    questions = [question] if isinstance(question, str) else list(question)
    asked = BaseQuestions(base, model, device, no_answer=no_answer, trace=trace)
    results = [asked.answer(each) for each in questions]
    return results[0] if isinstance(question, str) else results


class BaseQuestions:
    """Answers one question after another from a base, whose model is loaded once."""

    def __init__(
        self,
        base: str | Path | KnowledgeBase,
        model: AnyModel | None = None,
        device: str | None = None,
        *,
        no_answer: bool = True,
        trace: bool = True,
    ) -> None:
        self._model, self._device = model, device
        self._no_answer, self._trace = no_answer, trace
        opened = base if isinstance(base, KnowledgeBase) else open_base(base)
        self._answerer = BaseAnswerer(opened, model, device)

    def answer(self, question: str) -> TaskResult:
        """The answer to a question, with its source."""
        return self._answerer.answer(
            question, self._read, no_answer=self._no_answer, trace=self._trace
        )

    def _read(self, question: str, passage: str, watched: bool) -> TaskResult:
        """What a question answering model finds in a passage."""
        options: dict[str, Any] = {"device": self._device, "trace": watched}
        return answering.answer(question, passage, self._model, **options)
