"""The campaign of files: mutations over every reader, which must end in success or in a sentence.

A case copies an intact sample, changes one file of it, and gives it to a public reader or, for a
third of the cases, to a command. It fails if anything but a RegardError is raised, if the command
ends with another exit code than 0 or 2 or prints more than one line about an error, if foreign text
is printed or warned of, if the process dies or takes longer than 10 s, or if the input is changed.
"""

import hashlib
import os
import shlex
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import torch

from fuzz.children import Outcome, describe_exception, run_in_children
from fuzz.formats import Material, mutate_file
from fuzz.hostile_values import EXTREMES, draw_values
from fuzz.samples import build_samples
from fuzz.subjects import Subject, covered, subjects_here
from regard.errors import RegardError

__all__ = ["CASES", "COVERED", "reproduce", "run"]

COVERED = covered()
CASES = 3400
_COMMAND_SHARE = 0.35  # of the cases of a subject that has commands
_DRAWN_VALUES = 400
_HIDDEN_WARNINGS = (DeprecationWarning, PendingDeprecationWarning, ResourceWarning, ImportWarning)

Report = Callable[[str, str], None]


def run(seed: int, cases: int | None, report: Report, *, light: bool = False) -> int:
    """Run the campaign; every failure is reported, and the number of cases is returned.

    A `light` campaign leaves out what needs transformers, which takes seconds to import.
    """
    count = CASES if cases is None else cases
    progress = getattr(report, "progress", lambda done, total: None)
    with tempfile.TemporaryDirectory(prefix="regard-fuzz-samples-") as place:
        campaign = Campaign(Path(place), seed, light=light)
        outcomes = run_in_children(campaign.cases(count), workers=_workers())
        for done, (number, outcome) in enumerate(outcomes, 1):
            if outcome.failed:
                name = f"{outcome.kind}: {campaign.describe(number)}: {outcome.place}"
                report(name, outcome.detail)
            progress(done, count)
        campaign.check_samples(report)
    return count


def reproduce(seed: int, number: int) -> str:
    """What one case is and how it ends, with the traceback or the message."""
    with tempfile.TemporaryDirectory(prefix="regard-fuzz-samples-") as place:
        campaign = Campaign(Path(place), seed)
        action = partial(campaign.run_case, number)
        ((_, outcome),) = run_in_children({number: action})
        return f"{campaign.describe(number)}\n{outcome.kind} {outcome.place}\n{outcome.detail}"


def _workers() -> int:
    """How many cases run at the same time."""
    return os.cpu_count() or 1


class Campaign:
    """The samples in a folder, and the cases of a seed."""

    def __init__(self, samples: Path, seed: int, *, light: bool = False) -> None:
        torch.set_num_threads(1)  # a pool of threads would not survive a fork
        self.samples, self.seed = samples, seed
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            build_samples(samples, light=light)
        self.fingerprints = fingerprints(samples)
        self.subjects = subjects_here(light=light)
        files = [file.read_bytes() for file in sorted(samples.glob("*")) if file.is_file()]
        files += [file.read_bytes() for file in sorted(samples.glob("translator/*"))]
        values = (*EXTREMES, *draw_values(seed, _DRAWN_VALUES))
        self.material = Material(values, files)
        weights = [subject for subject in self.subjects for _ in range(subject.weight)]
        Random(seed).shuffle(weights)
        self._order = weights

    def cases(self, count: int) -> Iterator[tuple[int, Callable[[Path], Outcome]]]:
        """The cases by number."""
        for number in range(count):
            yield number, partial(self.run_case, number)

    def subject(self, number: int) -> Subject:
        """The subject of a case."""
        return self._order[number % len(self._order)]

    def describe(self, number: int) -> str:
        """The case in words that name what reproduces it."""
        return f"case {number} ({self.subject(number).name})"

    def run_case(self, number: int, folder: Path) -> Outcome:
        """Copy, mutate and read the sample of a case."""
        random, subject = Random(f"{self.seed} {number}"), self.subject(number)
        target = self._copy(subject, folder)
        mutated = target / subject.file if subject.file else target
        note = mutate_file(mutated, subject.form, random, self.material)
        before = fingerprints(folder)
        if subject.commands and random.random() < _COMMAND_SHARE:
            line = random.choice(subject.commands)
            outcome = run_command(line, target, mutated)
            note = f"{note}; regard {line}"
        else:
            outcome = run_reader(partial(subject.read, target, random))
        changed = {*before.items()} - {*fingerprints(folder).items()}
        names = [name for name, _ in changed if not name.startswith(subject.written)]
        if names and not outcome.failed:
            outcome = Outcome("lost or mixed file", f"changed: {names}", "input changed")
        return Outcome(outcome.kind, f"mutation: {note}\n{outcome.detail}", outcome.place)

    def _copy(self, subject: Subject, folder: Path) -> Path:
        """The sample of a subject in a folder of its own; what lies beside it is linked."""
        source, target = self.samples / subject.root, folder / subject.root
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)
        for name in subject.beside:
            (folder / name).symlink_to(self.samples / name)
        return target.relative_to(folder)

    def check_samples(self, report: Report) -> None:
        """Report a sample that some case changed: a reader wrote where it should only read."""
        if fingerprints(self.samples) != self.fingerprints:
            report("lost or mixed file: a file beside the input", "a reader changed it")


def run_reader(read: Callable[[], Any]) -> Outcome:
    """How a reader ends: success, a RegardError, or a failure."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            read()
            outcome = Outcome("success")
        except RegardError as error:
            outcome = check_message(error)
        except BaseException as error:  # also what Rust code raises when it panics
            return describe_exception(error)
    printed = _printed(1) + _printed(2)
    if printed.strip():
        return Outcome("other", f"a library must not print: {printed[:2000]}", "foreign text")
    for warning in caught:
        hidden = issubclass(warning.category, _HIDDEN_WARNINGS)
        if not hidden and not str(warning.message).startswith("regard"):
            text = f"{warning.category.__name__}: {warning.message} ({warning.filename})"
            return Outcome("other", text, f"foreign warning {warning.category.__name__}")
    return outcome


def check_message(error: RegardError) -> Outcome:
    """The refusal that an error is; a message should not be empty."""
    message = str(error)
    if not message.strip():
        return Outcome("other", repr(error), "an error without a message")
    return Outcome("refusal", message[:300])


def run_command(line: str, target: Path, mutated: Path) -> Outcome:
    """How a command ends: exit code 0, or 2 with one line on stderr; all else is a failure."""
    from regard.cli import main

    words = shlex.split(line)
    if words[-1] == "<":
        words.pop()
        _read_stdin_from(mutated)
    text = _argument_text(mutated) if "{text}" in words else ""
    named = {"{text}": text, "I_love_you": "I love you"}
    arguments = [named.get(word, word.replace("{}", str(target))) for word in words]
    try:
        main(arguments)
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        return judge_end(end.code, _printed(2))
    except BaseException as error:
        return describe_exception(error)


def judge_end(code: Any, errors: str) -> Outcome:
    """The outcome of an exit code and of what the command printed to stderr."""
    lines = [line for line in errors.splitlines() if not line.startswith("regard: note:")]
    if code not in (0, None, 2):
        return Outcome("other", f"exit code {code!r}: {errors[:500]}", f"exit code {code!r}")
    if code == 2 and (len(lines) != 1 or not lines[0].startswith("regard: ")):
        return Outcome("other", f"expected one line: {errors[:2000]}", "not one line on stderr")
    if code != 2 and any("Warning" in line or "Traceback" in line for line in lines):
        return Outcome("other", f"foreign text: {errors[:2000]}", "foreign text on stderr")
    return Outcome("refusal" if code == 2 else "success", errors[:300])


def _argument_text(file: Path) -> str:
    """The text of a file as an argument of a command line, which cannot hold a NUL."""
    if not file.is_file():
        return "missing"
    return (
        file.read_bytes()[:100_000].replace(b"\0", b"").decode("utf-8", "surrogateescape").strip()
    )


def _read_stdin_from(file: Path) -> None:
    """Let stdin be a file, or nothing if that cannot be opened."""
    if file.is_file():
        os.dup2(os.open(file, os.O_RDONLY), 0)


def _printed(descriptor: int) -> str:
    """What was printed to a stream of this process, which is a file."""
    (sys.stdout if descriptor == 1 else sys.stderr).flush()
    return os.pread(descriptor, 100_000, 0).decode("utf-8", "replace")


def fingerprints(folder: Path) -> dict[str, str]:
    """A hash of each file below a folder; links and folders by their kind."""
    prints = {}
    for parent, folders, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            regular = path.is_file() and not path.is_symlink()
            data = path.read_bytes() if regular else b"not a file"
            prints[str(path.relative_to(folder))] = hashlib.blake2b(data).hexdigest()
        for name in folders:
            prints[str(Path(parent, name).relative_to(folder))] = "folder"
    return prints
