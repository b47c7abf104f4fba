import json

import pytest
import torch
from torch import nn

from regard.errors import FileError, RegardError
from regard.studies.survey.files import to_json
from regard.studies.survey.processes import Processes
from regard.studies.survey.state import State, StateFile, fingerprint, text_digest
from studies.survey.test_table import survey

BEGUN = {"model": "a", "batch": 7}


def test_a_state_comes_back_exactly(tmp_path):
    keeper, state = StateFile(tmp_path / "s", BEGUN), State(survey(), 11, 3, "abc")
    keeper.save(state)
    found = keeper.load()
    assert (found.before, found.groups, found.digest) == (11, 3, "abc")
    assert to_json(found.survey) == to_json(state.survey)
    assert [each.name for each in tmp_path.iterdir()] == ["s"]


def test_without_a_file_nothing_is_kept(tmp_path):
    assert StateFile(None).load() is None
    StateFile(None).save(State(survey()))
    assert StateFile(tmp_path / "gone").load() is None


def test_a_survey_of_something_else_is_not_gone_on_with(tmp_path):
    StateFile(tmp_path / "s", BEGUN).save(State(survey()))
    with pytest.raises(FileError, match="begun with another model and batch; go on as it was"):
        StateFile(tmp_path / "s", {"model": "b", "batch": 8}).load()


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "regard survey 1"}'])
def test_what_is_no_state_is_refused(tmp_path, content):
    (tmp_path / "s").write_text(content)
    with pytest.raises(FileError, match=r"is no state of a survey .*; remove it to begin anew"):
        StateFile(tmp_path / "s").load()


def test_a_state_is_plain_json(tmp_path):
    StateFile(tmp_path / "s", BEGUN).save(State(survey()))
    assert json.loads((tmp_path / "s").read_text())["begun"] == BEGUN


def test_models_are_told_apart_by_their_weights():
    torch.manual_seed(0)
    one, other = nn.Linear(53, 31), nn.Linear(53, 31)
    assert fingerprint(one) != fingerprint(other)
    other.load_state_dict(one.state_dict())
    assert fingerprint(one) == fingerprint(other) != fingerprint(other.half())


def test_texts_are_told_apart_by_every_letter_and_where_they_end():
    assert text_digest(["ab", "c"]) == text_digest(["ab", "c"])
    assert (
        len({text_digest(each) for each in (["ab", "c"], ["a", "bc"], ["abc"], [("ab", "c")])}) == 3
    )
    assert text_digest(["c"], text_digest(["ab"])) != text_digest(["c"])


def change_file(path, change):
    """Change the record in the file of a state, and leave its checksum as it is."""
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def test_a_state_with_another_number_than_was_written_is_refused(tmp_path):
    StateFile(tmp_path / "s", BEGUN).save(State(survey(), 11, 3, "abc"))
    change_file(tmp_path / "s", lambda record: record["state"].update(before=12))
    with pytest.raises(FileError, match=r"\(its checksum does not fit\); remove it to begin anew"):
        StateFile(tmp_path / "s", BEGUN).load()


def test_a_state_whose_checksum_is_gone_is_refused(tmp_path):
    StateFile(tmp_path / "s", BEGUN).save(State(survey(), 11, 3, "abc"))
    change_file(tmp_path / "s", lambda record: record.pop("checksum"))
    with pytest.raises(FileError, match=r"its checksum does not fit"):
        StateFile(tmp_path / "s", BEGUN).load()


def test_a_state_of_an_older_version_has_no_checksum_and_is_read(tmp_path):
    StateFile(tmp_path / "s", BEGUN).save(State(survey(), 11, 3, "abc"))
    change_file(
        tmp_path / "s",
        lambda record: record.pop("checksum") and record.update(format="regard survey state 1"),
    )
    assert StateFile(tmp_path / "s", BEGUN).load().before == 11


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"before": "x"}, "the state expected before to be a whole number, got 'x'"),
        ({"groups": 2**64}, "the state expected groups to be a whole number, got 1844"),
        ({"groups": -1}, "counts fewer than no texts"),
        ({"digest": None}, "the state expected digest to be text, got None"),
        ({"survey": []}, "the state expected survey to be an object"),
        ({"survey": {}}, r"the state lacks survey\.format"),
    ],
)
def test_wrong_types_in_a_state_are_named(tmp_path, changes, message):
    StateFile(tmp_path / "s", BEGUN).save(State(survey(), 11, 3, "abc"))
    change_file(
        tmp_path / "s",
        lambda record: (
            record.pop("checksum"),
            record.update(format="regard survey state 1"),
            record["state"].update(changes),
        ),
    )
    with pytest.raises(FileError, match=message):
        StateFile(tmp_path / "s", BEGUN).load()


def test_a_state_nested_too_deeply_is_refused(tmp_path):
    (tmp_path / "s").write_text("[" * 99999)
    with pytest.raises(FileError, match="is nested too deeply"):
        StateFile(tmp_path / "s").load()


def test_a_state_that_another_survey_works_on_is_refused(tmp_path):
    with (
        StateFile(tmp_path / "s").hold_lock(Processes()),
        pytest.raises(FileError, match=r"process \d+ on .* is surveying with the state .*s; wait"),
        StateFile(tmp_path / "s").hold_lock(Processes()),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_other_processes_of_a_refused_survey_end_too(tmp_path, monkeypatch):
    monkeypatch.setattr(Processes, "any", lambda processes, *flags: [True])
    with (
        pytest.raises(RegardError, match="the first process has ended"),
        StateFile(tmp_path / "s").hold_lock(Processes(1, 2)),
    ):
        pass


def test_without_a_file_there_is_nothing_to_lock():
    with StateFile(None).hold_lock(Processes()), StateFile(None).hold_lock(Processes()):
        pass
