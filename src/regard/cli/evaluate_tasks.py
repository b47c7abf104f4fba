"""The part of `regard evaluate` about tasks: metrics, and where a model fails."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.text import say

if TYPE_CHECKING:
    from regard.loading import LoadedModel

__all__ = [
    "evaluate_classifier",
    "evaluate_matcher",
    "evaluate_reader",
    "evaluate_summariser",
    "format_task_metrics",
]

_BATCH = 64  # inputs between two reports of progress
_WORST = 5  # answers that are printed
_NAMES = {  # the same in every language
    "f1": "F1",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
}
_PERCENT = {"accuracy": "{:.2%}", "macro_f1": "{:.2%}", "first": "{:.2%}"}
_PLAIN = {
    "texts": "{:d}",
    "questions": "{:d}",
    "exact": "{:.2f}",
    "f1": "{:.2f}",
    "way": "{}",
    "mrr": "{:.4f}",
}
_ROUGE = dict.fromkeys(("rouge1", "rouge2", "rougeL"), "{:.2f}")


def evaluate_classifier(
    loaded: "LoadedModel", data: Path, limit: int | None, *, quiet: bool
) -> dict[str, Any]:
    """Accuracy, F1 and confusion matrix of a classifier on labelled texts."""
    from regard.cli.progress import progress_bar
    from regard.tasks import classify
    from regard.training.class_metrics import class_metrics
    from regard.training.labelled_texts import LabelledFiles, label_index

    rows = list(islice(LabelledFiles((data,)), limit))
    gold = [label_index(row.label, loaded.labels) for row in rows]
    predicted: list[int] = []
    with progress_bar(len(rows), quiet=quiet) as bar:
        for start in range(0, len(rows), _BATCH):
            texts = [row.text for row in rows[start : start + _BATCH]]
            results = classify(texts, loaded, trace=False)
            predicted += [loaded.labels.index(str(result.answer)) for result in results]
            bar.show(len(predicted))
    metrics = class_metrics(predicted, gold, loaded.labels)
    return metrics.to_json() | {"labels": list(loaded.labels)}


def evaluate_reader(
    loaded: "LoadedModel", data: Path, limit: int | None, *, quiet: bool
) -> dict[str, Any]:
    """Exact match and F1 of a reader on questions, and its worst answers.

    "No answer" is offered only if some question of the data has none.
    """
    from regard.cli.progress import progress_bar
    from regard.tasks import answer
    from regard.training.answer_metrics import answer_f1, answer_metrics
    from regard.training.questions import QuestionFiles

    questions = list(islice(QuestionFiles((data,)), limit))
    may_be_none = any(not question.answers for question in questions)
    answers: list[str | None] = []
    with progress_bar(len(questions), quiet=quiet) as bar:
        for start in range(0, len(questions), _BATCH):
            part = questions[start : start + _BATCH]
            texts, contexts = [each.question for each in part], [each.context for each in part]
            results = answer(texts, contexts, loaded, no_answer=may_be_none, trace=False)
            answers += [result.answer for result in results]
            bar.show(len(answers))
    gold = [[true.text for true in question.answers] for question in questions]
    metrics = answer_metrics(answers, gold)
    scored: list[dict[str, Any]] = [
        {"question": each.question, "answer": own, "expected": true, "f1": f1}
        for each, own, true in zip(questions, answers, gold, strict=True)
        if (f1 := answer_f1(own, true, metrics.way)) < 1
    ]
    return asdict(metrics) | {"worst": sorted(scored, key=lambda row: row["f1"])[:_WORST]}


def evaluate_summariser(
    loaded: "LoadedModel", data: Path, limit: int | None, beam: int | None, *, quiet: bool
) -> dict[str, Any]:
    """ROUGE of the summaries of texts, and the worst of them."""
    from regard.cli.progress import progress_bar
    from regard.tasks import summarise
    from regard.training.summaries import SummaryFiles
    from regard.training.summary_metrics import mean_rouge, rouge_scores

    records = list(islice(SummaryFiles((data,)), limit))
    if not records:
        raise InputError(f"{data} has no text with a summary; name a file that has some")
    settings: dict[str, Any] = {} if beam is None else {"num_beams": beam}
    outputs: list[str] = []
    with progress_bar(len(records), quiet=quiet) as bar:
        for start in range(0, len(records), _BATCH):
            texts = [record.text for record in records[start : start + _BATCH]]
            outputs += [
                str(result.answer) for result in summarise(texts, loaded, trace=False, **settings)
            ]
            bar.show(len(outputs))
    scores = rouge_scores(outputs, [record.summary for record in records])
    rows: list[dict[str, Any]] = [
        {"text": record.text, "summary": own, "expected": record.summary, "rouge": score.mean}
        for record, own, score in zip(records, outputs, scores, strict=True)
    ]
    worst = sorted(rows, key=lambda row: row["rouge"])[:_WORST]
    return {"texts": len(records), **mean_rouge(scores)._asdict(), "worst": worst}


def evaluate_matcher(
    loaded: "LoadedModel", data: Path, limit: int | None, *, quiet: bool
) -> dict[str, Any]:
    """How often the first entry is right, and the mean reciprocal rank, of a matcher."""
    from regard.cli.progress import progress_bar
    from regard.tasks.knowledge.triples import MatcherScores
    from regard.training.match_metrics import match_metrics
    from regard.training.matches import MatchFiles

    rows = list(islice(MatchFiles((data,)), limit))
    scores, right = list[list[float]](), list[list[bool]]()
    with progress_bar(len(rows), quiet=quiet) as bar:
        for row in rows:
            entries = list(dict.fromkeys([*row.right, *row.wrong]))
            scores.append(MatcherScores(loaded.model, entries).score([row.question])[0].tolist())
            right.append([entry in row.right for entry in entries])
            bar.show(len(scores))
    return asdict(match_metrics(scores, right))


def format_task_metrics(record: dict[str, Any], language: str) -> str:
    """The metrics as lines, then the confusion matrix or the worst answers."""
    lines = [
        f"{_NAMES.get(key) or say(f'evaluate.{key}', language)}: {form.format(record[key])}"
        for key, form in (_PLAIN | _PERCENT | _ROUGE).items()
        if key in record and not isinstance(record[key], dict)
    ]
    if "confusion" in record:
        lines += ["", say("evaluate.confusion", language), *_confusion_lines(record)]
    if record.get("worst"):
        heading = "evaluate.worst-summaries" if "rouge1" in record else "evaluate.worst"
        lines += ["", say(heading, language)]
        lines += [_format_answer(row, language) for row in record["worst"]]
    return "\n".join(lines)


def _confusion_lines(record: dict[str, Any]) -> Iterator[str]:
    """The confusion matrix, its columns aligned and numbered as the labels of its rows are."""
    names, rows = record["labels"], record["confusion"]
    width = max(len(str(count)) for row in rows for count in row)
    widest = max(len(name) for name in names)
    yield " " * (widest + 4) + " ".join(f"{index:>{width}}" for index in range(len(names)))
    for index, (name, row) in enumerate(zip(names, rows, strict=True)):
        counts = " ".join(f"{count:>{width}}" for count in row)
        yield f"{index:>2} {name:<{widest}} {counts}"


def _format_answer(row: dict[str, Any], language: str) -> str:
    """A question, the model's answer and the true ones, or a summary and the true one."""
    if "rouge" in row:
        return f"{row['rouge']:.2f}  {row['summary']} ({row['expected']})"
    none = say("result.no-answer", language)
    expected = " / ".join(row["expected"]) or none
    return f"{row['f1']:.2f}  {row['question']} → {row['answer'] or none} ({expected})"
