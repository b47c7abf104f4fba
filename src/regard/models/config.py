"""Config, the base class of all configurations: a frozen dataclass whose values are checked.

A subclass only declares its fields. The type hints are then enforced, so that a mistake in a recipe
or in a config.json is reported with the name of the setting, what was expected and what came.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, get_type_hints

from regard.documents import check_value, parse_json
from regard.errors import InputError, UnknownNameError

__all__ = ["Config"]

C = TypeVar("C", bound="Config")


@dataclass(frozen=True)
class Config:
    """Frozen settings with checked names and types, stored as JSON.

    An unknown name raises an UnknownNameError that suggests the most similar known name.

    >>> from dataclasses import dataclass
    >>> from regard.models.config import Config
    >>> @dataclass(frozen=True)
    ... class Sizes(Config):
    ...     width: int = 3
    >>> Sizes(width=5).to_json()
    {'width': 5}
    """

    def __new__(cls: type[C], *values: Any, **settings: Any) -> C:
        """Check the names first: a dataclass would raise a bare TypeError for an unknown one."""
        cls.check_names(settings)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            check_value(type(self).__name__, name, getattr(self, name), hint)

    @classmethod
    def check_names(cls, names: Iterable[str]) -> None:
        """Raise an UnknownNameError for the first name that is no field of this class."""
        known = [field.name for field in fields(cls)]
        for name in names:
            if name not in known:
                raise UnknownNameError(f"setting of {cls.__name__}", name, known)

    @classmethod
    def from_json(cls: type[C], data: Mapping[str, Any] | str) -> C:
        """The configuration from what `to_json` returned, as a dictionary or as JSON text."""
        if isinstance(data, str):
            try:
                data = parse_json(data, "the text")
            except InputError as error:
                raise InputError(f"{cls.__name__} expected a JSON object; {error}") from None
        if not isinstance(data, Mapping):
            raise InputError(f"{cls.__name__} expected a JSON object, got {type(data).__name__}")
        # JSON has no tuples: they come back as lists.
        settings = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
        return cls(**settings)

    def to_json(self) -> dict[str, Any]:
        """All settings by name, as values that JSON can store."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def replace(self: C, **settings: Any) -> C:
        """A copy with these settings replaced."""
        self.check_names(settings)
        return replace(self, **settings)

    def refuse_below(self, least: float, *names: str) -> None:
        """Raise an InputError if one of these settings is below `least`; None is allowed."""
        for name in names:
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(
                    f"{type(self).__name__} expected {name} of at least {least}, got {value}"
                )

    def refuse_unless_rates(self, *names: str) -> None:
        """Raise an InputError if one of these settings is not in [0, 1)."""
        for name in names:
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(
                    f"{type(self).__name__} expected {name} from 0 to below 1, "
                    f"got {getattr(self, name)}"
                )
