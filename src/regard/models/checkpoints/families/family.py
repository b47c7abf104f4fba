"""Family, Rule and CheckpointConfig: how Hugging Face checkpoints are mapped to a Transformer.

A `Family` turns a config.json into a TransformerConfig (`Family.config`) and says for each tensor
of the files which parameter it fills (`Family.mapped_tensors`). A `Rule` maps names:

    Rule("h.*.ln_1.*", "decoder.layers.*.norm_attention.*").match("h.3.ln_1.weight")
    -> ["decoder.layers.3.norm_attention.weight"]

Rules also work backwards, so that errors and traces can use the names of the original checkpoint.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.configs import architecture_name
from regard.documents import check_value, quote_value
from regard.errors import FileError, InputError, UnknownNameError
from regard.models.checkpoints.files import CheckpointTensors
from regard.models.checkpoints.parameter_mapping import MappedTensor
from regard.models.transformer.config import TransformerConfig

__all__ = ["CheckpointConfig", "Family", "Rule"]

# Names of activations in transformers -> names of a TransformerConfig.
_ACTIVATIONS = {
    "relu": "relu", "gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh", "silu": "silu", "swish": "silu",
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """Maps the name of a tensor in the file to the name of a parameter.

    A * in both names stands for one part of a dotted name. With several parameter names, separated
    by spaces, each gets an equal part of the tensor's first axis. `transposed` says that the file
    stores the transposed matrix, and `skip_rows` how many rows at the beginning are not used.
    """

    file_name: str
    parameter_name: str
    transposed: bool = False
    skip_rows: int = 0

    def match(self, name: str) -> list[str]:
        """The parameter names for a tensor name; an empty list if the rule does not match."""
        match = _pattern(self.file_name).fullmatch(name)
        if match is None:
            return []
        return [_substitute(template, match) for template in self.parameter_name.split()]

    def inverse(self, name: str) -> str | None:
        """The name of the tensor for a parameter name; None if the rule does not match."""
        for template in self.parameter_name.split():
            match = _pattern(template).fullmatch(name)
            if match is not None:
                return _substitute(self.file_name, match)
        return None

    def part(self, weights: CheckpointTensors, name: str, index: int) -> Tensor:
        """The part of a tensor that belongs to parameter number `index` of the rule."""
        tensor = weights[name][self.skip_rows :]
        tensor = tensor.mT if self.transposed and tensor.dim() == 2 else tensor
        return tensor.chunk(len(self.parameter_name.split()))[index]


@dataclass(frozen=True)
class CheckpointConfig:
    """A config.json, the shapes of the tensors by name without prefix, and the head to build."""

    folder: Path
    config: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    head: str

    def __getitem__(self, key: str) -> int:
        """The size under a key that config.json must have: a whole number of 0 and more."""
        if self.config.get(key) is None:
            raise FileError(f"{self.folder / 'config.json'} lacks {key!r}")
        size: int = self.typed_value(key, int)
        if size < 0:
            raise FileError(f"{self.folder / 'config.json'} has a negative {key}, {size}")
        return size

    def typed_value(self, key: str, hint: Any, default: Any = None) -> Any:
        """The value of a key, or a default; a FileError if it has not the type of the hint."""
        value = self.get(key, default)
        try:
            check_value(str(self.folder / "config.json"), key, value, hint)
        except InputError as error:
            raise FileError(str(error)) from None
        return value

    def get(self, key: str, default: Any) -> Any:
        """The value of a key, or a default if it is missing or null."""
        value = self.config.get(key)
        return default if value is None else value

    def activation(self, key: str, default: str) -> str:
        """The activation as a TransformerConfig names it; an UnknownNameError for others."""
        name = self.typed_value(key, str, default)
        if name not in _ACTIVATIONS:
            raise UnknownNameError(f"activation ({key} of config.json)", name, _ACTIVATIONS)
        return _ACTIVATIONS[name]

    def label_names(self, count: int) -> tuple[str, ...]:
        """The names of the classes in the order of their ids; () unless there are `count`."""
        names = self.typed_value("id2label", dict[str, Any], {})
        ordered = [names.get(str(index)) for index in range(count)]
        known = len(names) == count and all(isinstance(name, str) for name in ordered)
        return tuple(map(str, ordered)) if known else ()

    def refuse(self, key: str, *expected: Any) -> None:
        """Raise a FileError if the key has a value that is none of the expected ones."""
        value = self.config.get(key)
        if value is not None and value not in expected:
            raise FileError(
                f"{self.folder / 'config.json'} has {key} = {quote_value(value)}, which is not "
                f"supported; expected {' or '.join(map(repr, expected))}"
            )


@dataclass(frozen=True)
class Family:
    """The checkpoints of one `model_type`: how their settings and tensor names are translated.

    `heads` are the architectures of transformers, each with the head of a TransformerConfig; the
    first is used if config.json names none. `prefix` is removed from tensor names, `renamed`
    replaces older spellings in them, and tensors that match `ignored` are not loaded. `settings`
    turns a config.json into settings of a TransformerConfig. `modules` renames modules whose paths
    in transformers differ from the names in the checkpoint.
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
        name = architecture_name(config, next(iter(self.heads)))
        if name not in self.heads:
            raise UnknownNameError(f"architecture of {folder}", name, self.heads)
        shapes = {self._short(tensor): weights.shape(tensor) for tensor in weights}
        checkpoint = CheckpointConfig(folder, config, shapes, self.heads[name])
        settings = self.settings(checkpoint) | {"head": checkpoint.head}
        if checkpoint.head == "classes":
            settings["label_names"] = checkpoint.label_names(settings["labels"])
            problem = config.get("problem_type")
            settings["multi_label"] = problem == "multi_label_classification"
        return TransformerConfig(**settings)

    def mapped_tensors(
        self, weights: CheckpointTensors, config: TransformerConfig
    ) -> Iterator[MappedTensor]:
        """Each tensor with its parameter; a tensor that no rule matches keeps its own name."""
        for name in weights:
            short = self._short(name)
            if any(_pattern(ignored).fullmatch(short) for ignored in self.ignored):
                continue
            if short.startswith("pooler.") and not config.pools:
                continue
            matches = ((rule, rule.match(short)) for rule in self.rules)
            rule, parameters = next(
                ((rule, parameters) for rule, parameters in matches if parameters),
                (Rule("", ""), [name]),
            )
            for index, parameter in enumerate(parameters):
                yield MappedTensor(name, parameter, partial(rule.part, weights, name, index))

    def file_name(self, name: str) -> str:
        """The name of the tensor in the files for a parameter; the same name if no rule matches."""
        candidates = (rule.inverse(name) for rule in self.rules)
        return next((candidate for candidate in candidates if candidate is not None), name)

    def module_path(self, name: str) -> str:
        """The path of a module in transformers, given its path in the names of the checkpoint."""
        matches = (rule.match(name) for rule in self.modules)
        return next((paths[0] for paths in matches if paths), name)

    def _short(self, name: str) -> str:
        """The tensor name with older spellings replaced and the prefix of the model removed."""
        for old, new in (self.renamed or {}).items():
            name = name.replace(old, new)
        return name.removeprefix(self.prefix)


def _pattern(name: str) -> re.Pattern[str]:
    """A regular expression in which each * matches one part of a dotted name."""
    return re.compile(re.escape(name).replace(r"\*", r"([^.]+)"))


def _substitute(name: str, match: re.Match[str]) -> str:
    """The name with each * replaced by what it matched."""
    parts = iter(match.groups())
    return re.sub(r"\*", lambda _: next(parts), name)
