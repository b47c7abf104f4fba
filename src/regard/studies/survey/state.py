"""The saved state of a survey: how far it has come, with which model, settings and texts."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import nn

from regard.documents import check_record, quote_value, read_json
from regard.errors import FileError, InputError, RegardError
from regard.files import atomic_file, exclusive_lock
from regard.studies.survey.files import SurveyRecord, from_json, to_json
from regard.studies.survey.processes import Processes
from regard.studies.survey.table import Survey

FORMAT = "regard survey state 2"
FORMAT_WITHOUT_CHECKSUM = "regard survey state 1"  # of older versions; it is still read
_SAMPLE = 1024  # numbers of each parameter that go into a model's fingerprint


class StateRecord(TypedDict):
    """A state in JSON."""

    survey: SurveyRecord
    before: int
    groups: int
    digest: str


class FileRecord(TypedDict):
    """What is in the file of a state besides its format and its checksum."""

    begun: dict[str, Any]
    state: dict[str, Any]


@dataclass(frozen=True, eq=False)
class State:
    """What is done: all texts before the current portion, and the first groups of that portion.

    `before` counts the texts of earlier portions, `groups` the finished groups of the current one.
    `digest` is a hash of all texts that were read, including the current portion.
    """

    survey: Survey
    before: int = 0
    groups: int = 0
    digest: str = ""

    def to_json(self) -> dict[str, Any]:
        """The state as JSON types, exactly."""
        return vars(self) | {"survey": to_json(self.survey)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "State":
        """The state that `to_json` turned into JSON types; an InputError if it is not whole."""
        check_record("the state", record, StateRecord)
        if min(record["before"], record["groups"]) < 0:
            raise InputError("the state counts fewer than no texts")
        survey = from_json(record["survey"])
        return cls(survey, record["before"], record["groups"], record["digest"])


@dataclass(frozen=True)
class StateFile:
    """Saves states to a file and loads them; without a path nothing is saved.

    `begun` has the model's fingerprint and the settings that the survey was begun with: a state
    with other ones is refused.
    """

    path: Path | None
    begun: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> State | None:
        """The state in the file, None if there is no file."""
        if self.path is None or not self.path.exists():
            return None
        try:
            record = read_json(self.path)
            _check_whole(record)
            state, begun = State.from_json(record["state"]), record["begun"]
        except (FileError, InputError) as error:
            raise FileError(
                f"{self.path} is no state of a survey ({error}); remove it to begin anew"
            ) from error
        changed = [name for name in self.begun if begun.get(name) != self.begun[name]]
        if changed:
            raise FileError(
                f"the survey of {self.path} was begun with another {' and '.join(changed)}; go on "
                "as it was begun, or remove the file to begin anew"
            )
        return state

    def save(self, state: State) -> None:
        """Write the state, whole or not at all."""
        if self.path is None:
            return
        record: dict[str, Any] = {"begun": dict(self.begun), "state": state.to_json()}
        record = {"format": FORMAT, "checksum": _checksum(record), **record}
        with atomic_file(self.path) as temporary:
            temporary.write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")

    @contextmanager
    def hold_lock(self, processes: Processes) -> Iterator[None]:
        """Refuse to work on a state that another survey is working on; all processes raise then."""
        error: FileError | None = None
        with ExitStack() as stack:
            if self.path is not None and processes.first:
                lock = self.path.with_name(f"{self.path.name}.lock")
                advice = "wait until it ends, or write to another file"
                work = f"surveying with the state {self.path}"
                try:
                    stack.enter_context(exclusive_lock(lock, work, advice))
                except FileError as raised:
                    error = raised
            failed = processes.any(error is not None)[0]
            if error is not None:
                raise error
            if failed:
                raise RegardError("the first process has ended with an error, which it has printed")
            yield

    @property
    def refusal(self) -> FileError:
        """The error for a corpus that is not the one that the survey was begun with."""
        return FileError(
            f"the survey of {self.path} was begun with other texts; give the same corpus, or "
            "remove the file to begin anew"
        )


def _check_whole(record: Mapping[str, Any]) -> None:
    """Raise an InputError unless a record has the format of a state, and its own checksum."""
    if record.get("format") not in (FORMAT, FORMAT_WITHOUT_CHECKSUM):
        raise InputError(f"its format is {quote_value(record.get('format'))}")
    check_record("the file", record, FileRecord)
    has_checksum = "checksum" in record or record["format"] == FORMAT
    if has_checksum and record.get("checksum") != _checksum(record):
        raise InputError("its checksum does not fit")


def _checksum(record: Mapping[str, Any]) -> str:
    """A hash of the settings and the state in a record."""
    content = {name: record[name] for name in ("begun", "state")}
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def fingerprint(model: nn.Module) -> str:
    """A hash of a model's class, of its parameters' shapes, and of some of their numbers."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, parameter in model.named_parameters():
        digest.update(f"{name} {tuple(parameter.shape)} {parameter.dtype}".encode())
        numbers = _whole(parameter.detach()).flatten()
        sample = numbers[:: max(1, len(numbers) // _SAMPLE)][:_SAMPLE]
        digest.update(sample.to("cpu", torch.float32).numpy().tobytes())
    return digest.hexdigest()[:16]


def _whole(parameter: torch.Tensor) -> torch.Tensor:
    """A parameter with the parts that other processes have, where FSDP2 has sharded it."""
    whole: torch.Tensor = getattr(parameter, "full_tensor", lambda: parameter)()
    return whole


def text_digest(texts: Iterable[Any], before: str = "") -> str:
    """A hash of texts, and of the texts before them, whose hash is `before`."""
    digest = hashlib.sha256(before.encode())
    for text in texts:
        parts = (text,) if isinstance(text, str) else text
        # lengths keep ("ab", "c") and ("a", "bc") apart
        digest.update("".join(f"{len(part)}:{part}" for part in parts).encode(errors="replace"))
    return digest.hexdigest()
