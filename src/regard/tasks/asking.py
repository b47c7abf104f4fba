"""`answer`: the answer to a question, found in a text or in a knowledge base."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.tasks import answering
from regard.tasks.knowledge.answers import BaseAnswerer
from regard.tasks.knowledge.base import KnowledgeBase, open_base
from regard.tasks.models import AnyModel
from regard.types import TaskResult

__all__ = ["answer"]


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
        options: dict[str, Any] = {"no_answer": no_answer, "device": device, "trace": trace}
        return answering.answer(question, context, model, **options)  # type: ignore[no-any-return]
    assert base is not None
    questions = [question] if isinstance(question, str) else list(question)
    results = _from_base(questions, base, model, device=device, no_answer=no_answer, trace=trace)
    return results[0] if isinstance(question, str) else results


def _from_base(
    questions: Sequence[str],
    base: str | Path | KnowledgeBase,
    model: AnyModel | None,
    *,
    device: str | None,
    no_answer: bool,
    trace: bool,
) -> list[TaskResult]:
    """The answers of a base to some questions."""
    opened = base if isinstance(base, KnowledgeBase) else open_base(base)
    answerer = BaseAnswerer(opened, model, device)

    def read(question: str, passage: str, watched: bool) -> TaskResult:
        options: dict[str, Any] = {"device": device, "trace": watched}
        return answering.answer(question, passage, model, **options)

    return [answerer.answer(each, read, no_answer=no_answer, trace=trace) for each in questions]
