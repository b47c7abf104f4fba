"""How far a survey has come, on disk: whole or not at all, and only for what it was begun with."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.errors import FileError
from regard.files import atomic_file
from regard.studies.survey.files import from_json, to_json
from regard.studies.survey.table import Survey

FORMAT = "regard survey state 1"
_SAMPLE = 1024  # numbers of each parameter that tell a model from another


@dataclass(frozen=True, eq=False)
class State:
    """What is done: the texts before the portion at hand, and so many groups of this one.

    `digest` is of all texts that were read, those of the portion at hand included.
    """

    survey: Survey
    before: int = 0
    groups: int = 0
    digest: str = ""

    def to_json(self) -> dict[str, Any]:
        """The state as JSON types, exactly."""
        return vars(self) | {"survey": to_json(self.survey)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "State":
        """The state of what `to_json` gave."""
        survey = from_json(found["survey"])
        return cls(survey, found["before"], found["groups"], found["digest"])


@dataclass(frozen=True)
class Keeper:
    """Saves states to a file and finds them again; None keeps nothing.

    `begun` says what the survey is of: a state of anything else is refused.
    """

    path: Path | None
    begun: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> State | None:
        """The state of the file, if it is there."""
        if self.path is None or not self.path.exists():
            return None
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            if found["format"] != FORMAT:
                raise ValueError(f"its format is {found['format']!r}")
            state, begun = State.from_json(found["state"]), found["begun"]
        except (OSError, KeyError, TypeError, ValueError) as error:
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
        found = {"format": FORMAT, "begun": dict(self.begun), "state": state.to_json()}
        with atomic_file(self.path) as temporary:
            temporary.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")

    @property
    def refusal(self) -> FileError:
        """What is said of a corpus that is not the one that was begun with."""
        return FileError(
            f"the survey of {self.path} was begun with other texts; give the same corpus, or "
            "remove the file to begin anew"
        )


def fingerprint(model: nn.Module) -> str:
    """A name for a model by its class, its parameters' shapes, and some of their numbers."""
    found = hashlib.sha256(type(model).__name__.encode())
    for name, each in model.named_parameters():
        found.update(f"{name} {tuple(each.shape)} {each.dtype}".encode())
        numbers = each.detach().flatten()
        some = numbers[:: max(1, len(numbers) // _SAMPLE)][:_SAMPLE]
        found.update(some.to("cpu", torch.float32).numpy().tobytes())
    return found.hexdigest()[:16]


def digested(texts: Iterable[Any], before: str = "") -> str:
    """A name for texts that come after others."""
    found = hashlib.sha256(before.encode())
    for text in texts:
        parts = (text,) if isinstance(text, str) else text
        found.update("".join(f"{len(part)}:{part}" for part in parts).encode(errors="replace"))
    return found.hexdigest()
