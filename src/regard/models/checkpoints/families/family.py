"""How a family of Hugging Face checkpoints becomes our Transformer: rules for its tensor names."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import FileError, UnknownNameError
from regard.models.checkpoints.files import CheckpointTensors
from regard.models.checkpoints.parameter_mapping import MappedTensor
from regard.models.transformer.config import TransformerConfig

__all__ = ["CheckpointConfig", "Family", "Rule"]

_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh", "silu": "silu", "swish": "silu",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """Maps the name of a tensor in the file to the name of a parameter; a * is one part of both.

    With several parameter names, separated by spaces, each gets an equal part of the tensor's first
    axis. `transposed` says that the file stores the transposed matrix, and `skip_rows` how many
    rows at the beginning are not used.
    """

    file_name: str
    parameter_name: str
    transposed: bool = False
    skip_rows: int = 0

    def match(self, name: str) -> list[str]:
        """The parameters of a tensor of the file; an empty list if the rule does not match."""
        found = _pattern(self.file_name).fullmatch(name)
        return (
            []
            if found is None
            else [_substitute(each, found) for each in self.parameter_name.split()]
        )

    def inverse(self, name: str) -> str | None:
        """The tensor of the file for a parameter; None if the rule does not match."""
        for each in self.parameter_name.split():
            found = _pattern(each).fullmatch(name)
            if found is not None:
                return _substitute(self.file_name, found)
        return None

    def part(self, weights: CheckpointTensors, name: str, place: int) -> Tensor:
        """The tensor for the parameter at this place among those of the rule."""
        tensor = weights[name][self.skip_rows :]
        tensor = tensor.mT if self.transposed and tensor.dim() == 2 else tensor
        return tensor.chunk(len(self.parameter_name.split()))[place]


@dataclass(frozen=True)
class CheckpointConfig:
    """A config.json, the shapes of the tensors without their prefix, and the head to build."""

    folder: Path
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    head: str

    def __getitem__(self, key: str) -> Any:
        if self.config.get(key) is None:
            raise FileError(f"{self.folder / 'config.json'} lacks {key!r}")
        return self.config[key]

    def get(self, key: str, default: Any) -> Any:
        """The value of a key, or a default if it is missing or null."""
        value = self.config.get(key)
        return default if value is None else value

    def activation(self, key: str, default: str) -> str:
        """Our name of an activation; an UnknownNameError for others."""
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
    settings: Callable[[CheckpointConfig], dict[str, Any]]
    ignored: tuple[str, ...] = ()
    renamed: Mapping[str, str] | None = None
    modules: tuple[Rule, ...] = ()

    def config(
        self, folder: Path, config: Mapping[str, Any], weights: CheckpointTensors
    ) -> TransformerConfig:
        """The TransformerConfig of this checkpoint."""
        known = next(iter(self.heads))
        name = str((config.get("architectures") or [known])[0])
        if name not in self.heads:
            raise UnknownNameError(f"architecture of {folder}", name, self.heads)
        shapes = {self._short(each): weights.shape(each) for each in weights}
        reading = CheckpointConfig(folder, config, shapes, self.heads[name])
        return TransformerConfig(**self.settings(reading) | {"head": reading.head})

    def mapped_tensors(
        self, weights: CheckpointTensors, config: TransformerConfig
    ) -> Iterator[MappedTensor]:
        """The tensors with their parameters; one that no rule matches keeps its own name."""
        for name in weights:
            short = self._short(name)
            if any(_pattern(each).fullmatch(short) for each in self.ignored):
                continue
            if short.startswith("pooler.") and not config.pools:
                continue
            matches = ((rule, rule.match(short)) for rule in self.rules)
            rule, parameter_name = next(
                ((r, found) for r, found in matches if found), (Rule("", ""), [name])
            )
            for place, each in enumerate(parameter_name):
                yield MappedTensor(name, each, partial(rule.part, weights, name, place))

    def file_name(self, name: str) -> str:
        """The name that the files have for a parameter."""
        found = (rule.inverse(name) for rule in self.rules)
        return next((each for each in found if each is not None), name)

    def module_path(self, name: str) -> str:
        """The path of a module in transformers, given its path in the names of the checkpoint."""
        matches = (rule.match(name) for rule in self.modules)
        return next((paths[0] for paths in matches if paths), name)

    def _short(self, name: str) -> str:
        """The name without the prefix of the whole model, older spellings replaced."""
        for old, new in (self.renamed or {}).items():
            name = name.replace(old, new)
        return name.removeprefix(self.prefix)


def _pattern(name: str) -> re.Pattern[str]:
    """A pattern in which each * matches one part of a dotted name."""
    return re.compile(re.escape(name).replace(r"\*", r"([^.]+)"))


def _substitute(name: str, match: re.Match[str]) -> str:
    """The name with each * replaced by what it matched."""
    parts = iter(match.groups())
    return re.sub(r"\*", lambda _: next(parts), name)
