"""How one family of Hugging Face checkpoints becomes our Transformer: a table and its reading."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import FileError, UnknownNameError
from regard.models.checkpoints.files import CheckpointTensors
from regard.models.checkpoints.parameter_mapping import Piece
from regard.models.transformer.config import TransformerConfig

__all__ = ["Family", "Reading", "Rule"]

_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh", "silu": "silu", "swish": "silu",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """A name there and here; a star is one part of it.

    Several names here share the tensor's first axis in equal parts. `turned` is a matrix stored
    the other way round, `skip` the rows that mean nothing.
    """

    theirs: str
    ours: str
    turned: bool = False
    skip: int = 0

    def match(self, name: str) -> list[str]:
        """The names here, none if the rule is about others."""
        found = _pattern(self.theirs).fullmatch(name)
        return [] if found is None else [_filled(each, found) for each in self.ours.split()]

    def inverse(self, name: str) -> str | None:
        """The name there, None if the rule is about others."""
        for each in self.ours.split():
            found = _pattern(each).fullmatch(name)
            if found is not None:
                return _filled(self.theirs, found)
        return None

    def part(self, weights: CheckpointTensors, name: str, place: int) -> Tensor:
        """The tensor of one of our names."""
        tensor = weights[name][self.skip :]
        tensor = tensor.mT if self.turned and tensor.dim() == 2 else tensor
        return tensor.chunk(len(self.ours.split()))[place]


@dataclass(frozen=True)
class Reading:
    """A config.json of this family, and the shapes of its tensors by their names in the table."""

    folder: Path
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    head: str

    def __getitem__(self, key: str) -> Any:
        if self.config.get(key) is None:
            raise FileError(f"{self.folder / 'config.json'} lacks {key!r}")
        return self.config[key]

    def get(self, key: str, default: Any) -> Any:
        """A value that may be left out."""
        value = self.config.get(key)
        return default if value is None else value

    def activation(self, key: str, default: str) -> str:
        """An activation by our name."""
        name = self.get(key, default)
        if name not in _ACTIVATIONS:
            raise UnknownNameError(f"activation ({key} of config.json)", str(name), _ACTIVATIONS)
        return _ACTIVATIONS[name]

    def refuse(self, key: str, *expected: Any) -> None:
        """Raise a FileError if the value is there and is none of the expected ones."""
        value = self.config.get(key)
        if value is not None and value not in expected:
            raise FileError(
                f"{self.folder / 'config.json'} has {key} = {value!r}, which is not supported; "
                f"expected {' or '.join(map(repr, expected))}"
            )


@dataclass(frozen=True)
class Family:
    """The checkpoints of one `model_type`: their architectures with our heads, and their names.

    `modules` renames modules that transformers calls otherwise than its checkpoints do.
    """

    heads: Mapping[str, str]
    prefix: str
    rules: tuple[Rule, ...]
    settings: Callable[[Reading], dict[str, Any]]
    ignored: tuple[str, ...] = ()
    renamed: Mapping[str, str] | None = None
    modules: tuple[Rule, ...] = ()

    def config(
        self, folder: Path, config: Mapping[str, Any], weights: CheckpointTensors
    ) -> TransformerConfig:
        """Our configuration of this checkpoint."""
        known = next(iter(self.heads))
        name = str((config.get("architectures") or [known])[0])
        if name not in self.heads:
            raise UnknownNameError(f"architecture of {folder}", name, self.heads)
        shapes = {self._short(each): weights.shape(each) for each in weights}
        reading = Reading(folder, config, shapes, self.heads[name])
        return TransformerConfig(**self.settings(reading) | {"head": reading.head})

    def pieces(self, weights: CheckpointTensors, config: TransformerConfig) -> Iterator[Piece]:
        """The tensors by our names; one that no rule knows keeps its own."""
        for name in weights:
            short = self._short(name)
            if any(_pattern(each).fullmatch(short) for each in self.ignored):
                continue
            if short.startswith("pooler.") and not config.pools:
                continue
            matches = ((rule, rule.match(short)) for rule in self.rules)
            rule, ours = next(((r, found) for r, found in matches if found), (Rule("", ""), [name]))
            for place, each in enumerate(ours):
                yield Piece(name, each, partial(rule.part, weights, name, place))

    def theirs(self, name: str) -> str:
        """What the files call a parameter of ours."""
        found = (rule.inverse(name) for rule in self.rules)
        return next((each for each in found if each is not None), name)

    def module_path(self, name: str) -> str:
        """The path in transformers, without the prefix, of a module that checkpoints call so."""
        matches = (rule.match(name) for rule in self.modules)
        return next((paths[0] for paths in matches if paths), name)

    def _short(self, name: str) -> str:
        """The name without the prefix of the whole model, in today's words."""
        for old, new in (self.renamed or {}).items():
            name = name.replace(old, new)
        return name.removeprefix(self.prefix)


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name).replace(r"\*", r"([^.]+)"))


def _filled(name: str, found: re.Match[str]) -> str:
    parts = iter(found.groups())
    return re.sub(r"\*", lambda _: next(parts), name)
