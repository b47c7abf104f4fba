"""The base class of all configurations: frozen settings, checked, stored as JSON."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import InputError, UnknownNameError

__all__ = ["Config"]

C = TypeVar("C", bound="Config")


@dataclass(frozen=True)
class Config:
    """A frozen set of settings; an unknown one is refused with the nearest known one named.

    >>> from dataclasses import dataclass
    >>> from regard.models.config import Config
    >>> @dataclass(frozen=True)
    ... class Sizes(Config):
    ...     width: int = 3
    >>> Sizes(width=5).to_json()
    {'width': 5}
    """

    def __new__(cls: type[C], *values: Any, **settings: Any) -> C:
        """Refuse a setting that there is not."""
        cls.check_names(settings)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            _check_value(type(self).__name__, name, getattr(self, name), hint)

    @classmethod
    def check_names(cls, names: Iterable[str]) -> None:
        """Raise an UnknownNameError for a setting that there is not."""
        known = [field.name for field in fields(cls)]
        for name in names:
            if name not in known:
                raise UnknownNameError(f"setting of {cls.__name__}", name, known)

    @classmethod
    def from_json(cls: type[C], data: Mapping[str, Any] | str) -> C:
        """The configuration that `to_json` wrote, as a dictionary or as text."""
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except ValueError as error:
                raise InputError(f"{cls.__name__} expected JSON, got other text: {error}") from None
        if not isinstance(data, Mapping):
            raise InputError(f"{cls.__name__} expected a JSON object, got {type(data).__name__}")
        settings = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
        return cls(**settings)

    def to_json(self) -> dict[str, Any]:
        """Every setting by name, as JSON types."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def replace(self: C, **settings: Any) -> C:
        """The same configuration but for these settings."""
        self.check_names(settings)
        return replace(self, **settings)

    def refuse_below(self, least: float, *names: str) -> None:
        """Raise an InputError for the first of the numbers that is below the least."""
        for name in names:
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(
                    f"{type(self).__name__} expected {name} of at least {least}, got {value}"
                )

    def refuse_unless_rates(self, *names: str) -> None:
        """Raise an InputError for the first of the dropout rates that is not from 0 to below 1."""
        for name in names:
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(
                    f"{type(self).__name__} expected {name} from 0 to below 1, "
                    f"got {getattr(self, name)}"
                )


def _check_value(owner: str, name: str, value: Any, hint: Any) -> None:
    choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    names = [each for c in choices if get_origin(c) is Literal for each in get_args(c)]
    if any(_fits(value, choice) for choice in choices):
        return
    if names and isinstance(value, str):
        raise UnknownNameError(f"{name} of {owner}", value, names)
    wanted = " or ".join(_word(choice) for choice in choices)
    raise InputError(f"{owner} expected {name} to be {wanted}, got {value!r}")


def _fits(value: Any, choice: Any) -> bool:
    if get_origin(choice) is Literal:
        return value in get_args(choice)
    if choice is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if choice is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, get_origin(choice) or choice)


def _word(choice: Any) -> str:
    if get_origin(choice) is Literal:
        return "one of " + ", ".join(map(repr, get_args(choice)))
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    return "null" if choice is NoneType else words.get(choice, str(choice))
