"""Campaign: kill training and every kind of saving at each of its operations on files.

Each case prepares a folder, kills a process at one operation, looks at what is left, and does the
same again without a kill::

    save a model over another: killed at 31 of 58, os.rename …
        what is left has to be the old model or the new one, byte by byte
        saving again has to end well, with the same bytes as without a kill, and nothing else

`run` takes all cases, or some that the seed chooses. Nothing else depends on chance.
"""

import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork

import torch
from safetensors import safe_open

from fuzz.kill_points import Ending, run_child
from fuzz.saving import LOG, SCENARIOS, TEMPORARY, Scenario, build_models

__all__ = ["reproduce", "run"]

Report = Callable[[str, str], None]
Content = dict[str, str]


@dataclass(frozen=True)
class Reference:
    """A scenario that nobody killed: its operations, and the files before and after it."""

    scenario: Scenario
    operations: list[str]
    prepared: Path
    before: Content
    after: Content


def run(
    seed: int, cases: int | None, report: Report, scenarios: Sequence[Scenario] = SCENARIOS
) -> int:
    """Kill at all operations of all scenarios, or at some that the seed chooses; their number."""
    with tempfile.TemporaryDirectory() as name:
        references = list(_make_references(Path(name).resolve(), report, scenarios))
        numbered = list(enumerate(_kill_points(references)))
        if cases is not None and cases < len(numbered):
            numbered = sorted(random.Random(seed).sample(numbered, cases))
        for done, (number, (reference, kill_at)) in enumerate(numbered, 1):
            for failure in _check_case(reference, kill_at, Path(name).resolve()):
                place = f"{reference.operations[kill_at - 1]}, {kill_at} of "
                place += str(len(reference.operations))
                title = f"{reference.scenario.name}: killed at {place}"
                report(f"lost or mixed file: case {number}: {title}", failure)
            if hasattr(report, "progress"):
                report.progress(done, len(numbered))
    return len(numbered)


def reproduce(seed: int, number: int) -> str:
    """Everything that is wrong with one case of the full campaign, whatever the seed."""
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        references = list(_make_references(folder, lambda *text: failures.append(" ".join(text))))
        reference, kill_at = list(_kill_points(references))[number]
        title = f"{reference.scenario.name}: killed at {reference.operations[kill_at - 1]}"
        return "\n".join([title, *failures, *_check_case(reference, kill_at, folder)])


def _make_references(
    folder: Path, report: Report, scenarios: Sequence[Scenario] = SCENARIOS
) -> Iterator[Reference]:
    """Run every scenario without a kill."""
    torch.set_num_threads(1)
    build_models()
    for number, scenario in enumerate(scenarios):
        prepared, place = folder / f"prepared-{number}", folder / "case"
        prepared.mkdir()
        ending = run_child(lambda: scenario.prepare(prepared), prepared)  # noqa: B023
        before = _content(prepared)
        shutil.copytree(prepared, place, symlinks=True)
        done = run_child(lambda: scenario.act(place), place)  # noqa: B023
        for error in (ending.error, done.error):
            if error:
                report(f"traceback: {scenario.name} without a kill", error)
        after = _content(place, hidden=True)
        # Imported here once, it need not be imported in every child.
        for module in done.modules:
            with suppress(Exception):
                import_module(module)
        shutil.rmtree(place)
        yield Reference(scenario, done.operations, prepared, before, after)


def _kill_points(references: list[Reference]) -> Iterator[tuple[Reference, int]]:
    """All cases: a reference, and the number of the operation to be killed at."""
    for reference in references:
        for kill_at in range(1, len(reference.operations) + 1):
            yield reference, kill_at


def _check_case(reference: Reference, kill_at: int, folder: Path) -> Iterator[str]:
    """Kill, look at what is left, do the same again, and look again; yields what is wrong."""
    place, scenario = folder / "case", reference.scenario
    shutil.copytree(reference.prepared, place, symlinks=True)
    try:
        killed = run_child(lambda: scenario.act(place), place, kill_at)
        if not killed.killed_by:
            yield f"it was not killed: {killed.error or 'it ended'}"
        if scenario.recover is not None:
            yield from _failures_of(run_child(lambda: scenario.recover(place), place), "reading")
        yield from _check_left(reference, _content(place))
        yield from _failures_of(run_child(lambda: scenario.act(place), place), "doing it again")
        again = _content(place, hidden=True)
        if again != reference.after:
            yield f"after doing it again: {_differences(reference.after, again)}"
    finally:
        shutil.rmtree(place)


def _failures_of(ending: Ending, work: str) -> Iterator[str]:
    """What is wrong with the end of a child that nobody killed."""
    if ending.killed_by or ending.error:
        yield f"{work}: signal {ending.killed_by}, {ending.error}"


def _check_left(reference: Reference, left: Content) -> Iterator[str]:
    """What is wrong with the files after a kill: each unit is the old, the new, or absent."""
    if reference.scenario.parts is not None:
        yield from reference.scenario.parts(left)
    elif left not in (reference.before, reference.after):
        yield f"neither old nor new: {_differences(reference.after, left)}"


def _differences(expected: Content, found: Content) -> str:
    """The files that are missing, too many, or different."""
    names = sorted({*expected} | {*found})
    return ", ".join(name for name in names if expected.get(name) != found.get(name))


def _content(folder: Path, *, hidden: bool = False) -> Content:
    """A hash of each file in a folder but logs; temporary files count only if `hidden`."""
    content = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        temporary = any(part.startswith(".") for part in path.relative_to(folder).parts)
        temporary = temporary or name.endswith(TEMPORARY)
        if path.is_dir() or path.name == LOG or (temporary and not hidden):
            continue
        content[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        if path.suffix == ".safetensors" and not temporary:
            content[name] += _check_tensors(path)
    return content


def _check_tensors(path: Path) -> str:
    """Nothing for a file of whole tensors, else the error of reading it."""
    try:
        with safe_open(path, "numpy") as file:
            list(file.keys())
    except Exception as error:  # whatever it is, it is told
        return f" is broken: {error}"
    return ""
