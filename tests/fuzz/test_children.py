import os
import signal

import numpy as np

from fuzz.children import Limits, Outcome, run_in_children


def outcomes(*actions, **settings) -> list[Outcome]:
    ended = dict(run_in_children(dict(enumerate(actions)), **settings))
    return [ended[number] for number in range(len(actions))]


def succeed(folder):
    return Outcome("success", folder.name)


def die(folder):
    os.kill(os.getpid(), signal.SIGSEGV)


def spin(folder):
    while True:
        pass


def allocate(folder):
    np.ones(1 << 40)


def test_a_signal_is_attributed_to_its_case_and_the_others_go_on():
    first, second, third = outcomes(succeed, die, succeed, workers=2)
    assert (first.kind, third.kind) == ("success", "success")
    assert second.kind == "signal"
    assert second.place.startswith("SIGSEGV at ")


def test_an_action_that_does_not_end_is_a_hang_with_its_place():
    (outcome,) = outcomes(spin, limits=Limits(cpu=1))
    assert outcome.kind == "hang"
    assert "in spin" in outcome.place


def test_a_huge_allocation_is_an_exception_of_its_case():
    (outcome,) = outcomes(allocate)
    assert outcome.kind == "traceback"
    assert "MemoryError" in outcome.place


def test_the_folder_of_a_case_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert outcomes(succeed)[0].detail == "case"
    assert [*tmp_path.iterdir()] == []
