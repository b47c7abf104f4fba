"""Whatever reads, writes or draws is in the lists of the campaigns, also what is added later."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from fuzz import reading, surface
from fuzz.__main__ import campaigns
from fuzz.surface import EXCLUDED, missing_from
from regard.cli.lazy import LazyCommand


def covered() -> set[str]:
    modules = [import_module(f"fuzz.{name}") for name in campaigns()]
    return {name for module in modules for name in getattr(module, "COVERED", ())}


def test_every_reader_exporter_view_suffix_and_command_is_fuzzed():
    assert missing_from(covered()) == []


def test_no_campaign_claims_to_cover_what_regard_does_not_have():
    assert covered() - surface.surface() == set()


def test_every_exclusion_names_a_public_function_and_gives_a_reason():
    names = {name for name, _ in surface._public_functions()}
    assert [name for name in EXCLUDED if name not in names or not EXCLUDED[name]] == []


def test_a_new_command_is_missing(monkeypatch):
    monkeypatch.setitem(surface.COMMANDS, "brag", LazyCommand("regard.cli.brag", "Boast."))
    assert missing_from(covered()) == ["command:brag"]


def test_a_new_kind_of_view_is_missing(monkeypatch):
    monkeypatch.setattr(surface, "KINDS", {**surface.KINDS, "globe": None})
    assert missing_from(covered()) == ["view:globe"]


def test_a_new_suffix_is_missing(monkeypatch):
    monkeypatch.setattr(surface, "SURVEY_SUFFIXES", (*surface.SURVEY_SUFFIXES, ".xlsx"))
    assert missing_from(covered()) == ["suffix:.xlsx"]


def load_ring(name: str) -> None:
    """Named as a reader is."""


def weigh(ring: str | Path) -> None:
    """Takes a path, whatever its name says."""


def save_ring(ring: str) -> None:
    """Named as an exporter is."""


@pytest.mark.parametrize(
    ("function", "kind"), [(load_ring, "reader"), (weigh, "reader"), (save_ring, "exporter")]
)
def test_a_new_function_is_missing(monkeypatch, function, kind):
    module = import_module("regard.storage.recognition")
    monkeypatch.setattr(function, "__module__", module.__name__)
    monkeypatch.setattr(module, "__all__", [*module.__all__, function.__name__])
    monkeypatch.setattr(module, function.__name__, function, raising=False)
    assert missing_from(covered()) == [f"{kind}:regard.storage.recognition.{function.__name__}"]


def test_a_function_that_takes_no_path_and_reads_nothing_is_not_asked_for():
    assert surface._kind(lambda tokens, head=0: tokens) is None


@pytest.mark.parametrize("name", ["load_trace", "read_word_vectors", "read_sentence_pairs"])
def test_the_readers_in_the_list_are_called(name):
    assert f"{name}(" in inspect.getsource(reading)
