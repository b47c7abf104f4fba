"""Surveys all classes in child processes with limits; each row is kept as a line of JSON.

A run is resumed from the file: classes that have a row are left out, unless they are asked for
again. A class that hangs or dies has a row that says so.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.architectures.catalog import list_classes
from bench.architectures.subject import survey_class
from fuzz.children import Limits, Outcome, run_in_children

__all__ = ["read_rows", "run_survey"]

LIMITS = Limits(cpu=90, clock=240, memory=6 << 30)

Class = tuple[str, str]  # model type and name of the class


def run_survey(
    types: Iterable[str], output: Path, *, workers: int = 2, again: bool = False
) -> Iterator[dict[str, Any]]:
    """The rows of the classes of some types, as they end; each is added to the output file."""
    output.parent.mkdir(parents=True, exist_ok=True)
    done = set() if again else {(row["type"], row["class"]) for row in read_rows(output)}
    work = [
        (model_type, name)
        for model_type in types
        for name in list_classes(model_type)
        if (model_type, name) not in done
    ]
    cases = {number: _make_action(subject, output) for number, subject in enumerate(work)}
    for number, outcome in run_in_children(cases, workers=workers, limits=LIMITS):
        row = {"type": work[number][0], "class": work[number][1]}
        if outcome.kind == "success":
            row = read_rows(output, work[number])[-1]
        else:
            reason = outcome.detail[-1200:]
            verdict = "not finished" if outcome.kind in ("hang", "signal") else "crash"
            row |= {"verdict": verdict, "reason": f"{outcome.place}\n{reason}"}
            _add_row(output, row)
        yield row


def read_rows(output: Path, subject: Class | None = None) -> list[dict[str, Any]]:
    """The last row of each class in a file, or the rows of one class."""
    if not output.exists():
        return []
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines() if line]
    if subject is not None:
        return [row for row in rows if (row["type"], row["class"]) == subject]
    return list({(row["type"], row["class"]): row for row in rows}.values())


def _make_action(subject: Class, output: Path) -> Callable[[Path], Outcome]:
    """What a child does for one class."""
    output = output.resolve()

    def act(_: Path) -> Outcome:
        model_type, name = subject
        perturb = list_classes(model_type)[0] == name
        _add_row(output, survey_class(model_type, name, perturb=perturb))
        return Outcome("success")

    return act


def _add_row(output: Path, row: dict[str, Any]) -> None:
    """Append a row with one write, so that two children cannot mix their lines."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, (json.dumps(row) + "\n").encode())
    finally:
        os.close(file)
