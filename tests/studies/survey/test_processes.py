"""Several processes find what one does; when one is asked to stop all do, and any number go on."""

import json
import os
import sys
from pathlib import Path

import pytest

from process_groups import run_with_children
from regard.errors import InputError, RegardError
from regard.studies.survey import run as module
from regard.studies.survey.files import from_json
from regard.studies.survey.processes import Processes
from regard.studies.survey.run import survey
from studies.survey.models import TEXTS, UNEVEN, reader, tokenizer
from studies.survey.test_table import same

TESTS = Path(__file__).parents[2]


def shared(folder, processes=2, stopping=0, dying=0, sharded=False):
    script = [
        str(TESTS / "studies/survey/survey_script.py"),
        str(folder),
        str(stopping),
        str(dying),
        "sharded" if sharded else "",
    ]
    start = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    if dying:
        # torchrun ends the other processes as soon as it sees one die; on a busy machine that may
        # be before they have printed why they stop
        start.append("--monitor-interval=5")
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    settings = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COVERAGE_CORE": ""}
    command = [sys.executable, *start, *script]
    return run_with_children(command, settings)


def alone(texts=TEXTS * 3, **settings):
    return survey(reader(), tokenizer(), texts, batch=17, **settings)


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch):
    monkeypatch.setattr(module, "PORTION", 5)


def found(folder, rank):
    return from_json(json.loads((folder / f"found-{rank}.json").read_text()))


def test_without_torchrun_there_is_one_process():
    ranks = Processes.here()
    assert (ranks, ranks.first) == (Processes(0, 1), True)
    assert ranks.any(True, False) == [True, False]
    assert ranks.gather("我") == ["我"]


@pytest.fixture
def twins(monkeypatch):
    """Two processes that always say the same, so that one of them can be played by nobody."""

    def gather(found, own):
        for each in found:
            each.copy_(own)

    fakes = {"get_backend": lambda: "gloo", "all_gather": gather, "all_reduce": lambda *_, op: None}
    for name, fake in fakes.items():
        monkeypatch.setattr(f"torch.distributed.{name}", fake)
    return Processes(1, 2)


@pytest.mark.parametrize("text", ["我爱 tea", ""])
def test_texts_pass_between_processes_as_they_are(twins, text):
    assert twins.gather(text) == [text, text]


def test_what_one_process_says_holds_for_all(twins):
    assert not twins.first
    assert twins.any(True, False) == [True, False]


def test_a_process_that_is_gone_is_told_in_a_sentence(twins, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr("torch.distributed.all_reduce", broken)
    with pytest.raises(RegardError, match="another of the 2 processes has ended; run the same"):
        twins.any(True)


def test_what_all_have_done_is_put_together(twins, monkeypatch):
    """Each of the twins takes the second of two groups, and counts what the other counts."""
    monkeypatch.setattr(Processes, "here", classmethod(lambda cls: twins))
    found = survey(reader(), tokenizer(), TEXTS[:2], batch=1)
    assert (found.examples, len(found.rows)) == (2, 14)


def test_a_model_whose_heads_are_split_is_refused(twins, monkeypatch):
    monkeypatch.setattr(Processes, "here", classmethod(lambda cls: twins))
    monkeypatch.setattr(module, "is_tensor_parallel", lambda model: True)
    with pytest.raises(InputError, match="split over processes, which needs all of them for each"):
        survey(reader(), tokenizer(), TEXTS[:2])


@pytest.mark.slow
def test_two_processes_find_what_one_does_and_both_know_it(tmp_path):
    done = shared(tmp_path)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        same(found(tmp_path, rank), alone())


@pytest.mark.slow
def test_when_one_is_asked_to_stop_all_do_and_one_alone_goes_on(tmp_path):
    done = shared(tmp_path, stopping=7)
    assert done.returncode == 0, done.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"state", "stopped-0", "stopped-1"}
    told = []
    same(alone(state=tmp_path / "state", on_progress=told.append), alone())
    assert told[0] > 7


@pytest.mark.slow
def test_when_one_dies_the_others_say_so(tmp_path):
    done = shared(tmp_path, dying=7)
    assert done.returncode != 0
    assert "another of the 2 processes has ended; run the same again" in done.stderr


@pytest.mark.slow
def test_a_model_that_is_sharded_by_fsdp_is_surveyed_as_the_whole_one(tmp_path):
    done = shared(tmp_path, sharded=True)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        # gathered shards lie at other addresses than whole parameters, and the float32 products of
        # the model itself may then be summed in another order; the spread of a number that is the
        # same for all examples is nothing but their rounding
        same(found(tmp_path, rank), alone(UNEVEN), relative_error=1e-6, absolute_error=1e-6)
