"""A short campaign of files with a fixed seed, and the rules by which a case fails."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from fuzz.children import Outcome, run_in_children
from fuzz.files import judge_end, run_reader
from regard.errors import InputError

ROOT = Path(__file__).parents[2]
SHORT = """
import json
from fuzz.files import run
failures = []
run(20, 120, lambda name, detail: failures.append(f"{name} {detail[-400:]}"), light=True)
print(json.dumps(failures))
"""


def test_no_mutated_file_ends_in_a_traceback_a_signal_or_a_hang():
    # a process of its own: the checks of shapes in this one would speak before our messages
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", SHORT], capture_output=True, env=os.environ | {"PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout.splitlines()[-1]) == []


def outcome_of(read) -> Outcome:
    ((_, outcome),) = run_in_children({0: lambda folder: run_reader(read)})
    return outcome


def refuse():
    raise InputError("expected a, got b; give a")


def test_a_sentence_is_how_a_reader_may_refuse():
    assert outcome_of(refuse) == Outcome("refusal", "expected a, got b; give a")


def test_any_other_exception_is_a_traceback_with_its_place():
    outcome = outcome_of(lambda: {}["key"])
    assert (outcome.kind, outcome.place.partition(" ")[0]) == ("traceback", "KeyError")


def test_a_library_that_prints_fails():
    assert outcome_of(lambda: os.write(2, b"thread panicked")).place == "foreign text"


def test_a_foreign_warning_fails():
    assert outcome_of(lambda: warnings.warn("odd", stacklevel=1)).place.startswith("foreign warn")


@pytest.mark.parametrize(
    ("code", "errors", "kind"),
    [
        (0, "", "success"),
        (2, "regard: no file\n", "refusal"),
        (2, "regard: note: slow\nregard: no file\n", "refusal"),
        (2, "regard: no file\nand more\n", "other"),
        (2, "", "other"),
        (1, "", "other"),
        (0, "UserWarning: odd\n", "other"),
    ],
)
def test_a_command_ends_well_or_with_one_line(code, errors, kind):
    assert judge_end(code, errors).kind == kind
