"""Surveys all classes in child processes with limits; each row is kept as a line of JSON.

A run is resumed from the file: classes that have a row are left out, unless they are asked for
again. A class that hangs or dies has a row that says so.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from bench.architectures.catalog import list_classes
from bench.architectures.libraries import list_subjects, survey_subject
from bench.architectures.subject import survey_class
from fuzz.children import Limits, Outcome, run_in_children

__all__ = ["Work", "read_rows", "run_survey", "work_of_libraries", "work_of_types"]

LIMITS = Limits(cpu=90, clock=600, memory=6 << 30)

Key = tuple[str, str]  # model type and name of the class
Work = dict[Key, Callable[[], dict[str, Any]]]  # what gives the row of each class


def work_of_types(types: Iterable[str]) -> Work:
    """The classes of some model types of transformers."""
    return {
        (model_type, name): partial(survey_class, model_type, name)
        for model_type in types
        for name in list_classes(model_type)
    }


def work_of_libraries() -> Work:
    """The models of other libraries."""
    return {
        (f"{subject.library}/{subject.name}", subject.name): partial(survey_subject, subject)
        for subject in list_subjects()
    }


def run_survey(
    work: Work, output: Path, *, workers: int = 2, again: bool = False
) -> Iterator[dict[str, Any]]:
    """The rows of some work, as they end; each is added to the output file."""
    output.parent.mkdir(parents=True, exist_ok=True)
    done = set() if again else {(row["type"], row["class"]) for row in read_rows(output)}
    keys = [key for key in work if key not in done]
    cases = {number: _make_action(work[key], output) for number, key in enumerate(keys)}
    for number, outcome in run_in_children(cases, workers=workers, limits=LIMITS):
        row = {"type": keys[number][0], "class": keys[number][1]}
        if outcome.kind == "success":
            row = read_rows(output, keys[number])[-1]
        else:
            reason = outcome.detail[-1200:]
            # a failure of the survey: what watching raises is in a row of its own
            row |= {"verdict": "not finished", "reason": f"{outcome.place}\n{reason}"}
            _add_row(output, row)
        yield row


def read_rows(output: Path, subject: Key | None = None) -> list[dict[str, Any]]:
    """The last row of each class in a file, or the rows of one class."""
    if not output.exists():
        return []
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines() if line]
    if subject is not None:
        return [row for row in rows if (row["type"], row["class"]) == subject]
    return list({(row["type"], row["class"]): row for row in rows}.values())


def _make_action(survey: Callable[[], dict[str, Any]], output: Path) -> Callable[[Path], Outcome]:
    """What a child does for one class."""
    output = output.resolve()

    def act(_: Path) -> Outcome:
        start = time.process_time()
        row = survey()
        _add_row(output, {**row, "seconds": round(time.process_time() - start, 1)})
        return Outcome("success")

    return act


def _add_row(output: Path, row: dict[str, Any]) -> None:
    """Append a row with one write, so that two children cannot mix their lines."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, (json.dumps(row) + "\n").encode())
    finally:
        os.close(file)
