"""The model classes that a config.json can name."""

from typing import Any, TypeVar

from torch import nn

from regard.errors import UnknownNameError

__all__ = ["names", "register", "registered_class"]

M = TypeVar("M", bound=type[nn.Module])

_CLASSES: dict[str, Any] = {}


def register(kind: M) -> M:
    """Let `from_pretrained` find this class by its name; a decorator."""
    _CLASSES[kind.__name__] = kind
    return kind


def registered_class(name: str) -> Any:
    """The registered class of that name."""
    if name not in _CLASSES:
        raise UnknownNameError("class of models", name, names())
    return _CLASSES[name]


def names() -> list[str]:
    """The names of the registered classes."""
    return sorted(_CLASSES)
