"""One check at the door of every public function: its first argument is of the annotated type.

`heatmap(None)`, `rollout("text")` and `load_trace(3)` would otherwise fail far inside, with an
error about an attribute that the caller never heard of. The annotation of the first parameter says
what is expected, so there is nothing to write beside it:

    >>> from regard.arguments import check_first_argument
    >>> @check_first_argument
    ... def spell(text: str) -> list[str]:
    ...     return list(text)
    >>> spell(None)
    Traceback (most recent call last):
    ...
    regard.errors.InputError: spell expected a text as text, got None; pass a str
"""

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, TypeVar, Union

from regard.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])

# How a sentence names a type, and what it asks the caller to pass. The keys are names of classes,
# because this module must not import what it checks.
_PHRASES = {
    "Trace": ("a trace", "make one with regard.capture, regard.watch or Trace.from_weights"),
    "Module": ("a torch.nn.Module", "pass the model itself; regard.load finds one by its name"),
    "Tensor": ("a tensor", "make one with torch.tensor"),
    "str": ("a text", "pass a str"),
    "Path": ("a path", "pass a pathlib.Path"),
    "PathLike": ("a path", "pass it as text or pathlib.Path"),
    "Sequence": ("a list", "put it in a list"),
    "int": ("a number", "pass an int"),
    "float": ("a number", "pass a float"),
    "Mapping": ("a mapping", "pass a dict"),
}


def check_first_argument(function: Function) -> Function:
    """Let a function raise an InputError if its first argument is not of the annotated type."""

    @functools.wraps(function)
    def check_and_call(*args: Any, **kwargs: Any) -> Any:
        name, kinds = _expectation(function)
        value = args[0] if args else kwargs.get(name, _MISSING)
        if value is not _MISSING and not any(kind.accepts(value) for kind in kinds):
            raise _refusal(function.__name__, name, [kind.kind for kind in kinds], value)
        return function(*args, **kwargs)

    return typing.cast(Function, check_and_call)


def check_type(value: Any, kind: type | tuple[type, ...], function: str, name: str) -> None:
    """Raise an InputError if an argument is not of a class; for code that torch compiles.

    >>> from regard.arguments import check_type
    >>> check_type("3", int, "alibi", "heads")
    Traceback (most recent call last):
    ...
    regard.errors.InputError: alibi expected a number as heads, got the text '3'; pass an int
    """
    if not isinstance(value, kind):
        raise _refusal(function, name, kind if isinstance(kind, tuple) else (kind,), value)


def accepts(function: Callable[..., Any], value: Any) -> bool:
    """True if a value is of the type that a function's first parameter is annotated with."""
    return any(kind.accepts(value) for kind in _expectation(inspect.unwrap(function))[1])


_MISSING = object()


class ExpectedKind(typing.NamedTuple):
    """One class that an argument may be of, and for a sequence the class of its items."""

    kind: type
    items: type | None = None

    def accepts(self, value: Any) -> bool:
        """True if a value is of the class; a text is no sequence of anything."""
        if self.kind is not object and self.kind is not str and isinstance(value, str):
            return False
        if self.kind is float and isinstance(value, int):
            return True
        if not isinstance(value, self.kind):
            return False
        if self.items is None or not isinstance(value, list | tuple):
            return True
        return all(ExpectedKind(self.items).accepts(item) for item in value)


@functools.cache
def _expectation(function: Callable[..., Any]) -> tuple[str, tuple[ExpectedKind, ...]]:
    """The name of a function's first parameter, and the classes that it may be of."""
    name = next(iter(inspect.signature(function).parameters))
    annotation = typing.get_type_hints(inspect.unwrap(function))[name]
    return name, tuple(dict.fromkeys(_kinds_of(annotation)))


def _kinds_of(annotation: Any) -> Iterator[ExpectedKind]:
    """The classes of an annotation; `object` where it says nothing that can be checked."""
    origin = typing.get_origin(annotation)
    if hasattr(annotation, "array_type"):  # of jaxtyping: the shape is checked elsewhere
        yield from _kinds_of(annotation.array_type)
    elif origin is Union or origin is types.UnionType:
        for part in typing.get_args(annotation):
            yield from _kinds_of(part)
    elif origin is typing.Literal:
        yield from {ExpectedKind(type(value)) for value in typing.get_args(annotation)}
    elif annotation is None:
        yield ExpectedKind(type(None))
    elif origin is not None:
        yield ExpectedKind(origin, _item_class(origin, typing.get_args(annotation)))
    else:
        yield ExpectedKind(annotation if isinstance(annotation, type) else object)


def _item_class(origin: Any, arguments: tuple[Any, ...]) -> type | None:
    """The class of the items of a sequence, where the annotation names a single plain one."""
    is_list = isinstance(origin, type) and issubclass(origin, Sequence) and origin is not tuple
    plain = is_list and len(arguments) == 1 and isinstance(arguments[0], type)
    return arguments[0] if plain and not hasattr(arguments[0], "array_type") else None


def _refusal(function: str, name: str, kinds: Sequence[type], value: Any) -> InputError:
    """The sentence: what was expected, what came, what to do."""
    known = [_phrase(kind.__name__) for kind in kinds if kind is not type(None)]
    expected = " or ".join(dict.fromkeys(phrase for phrase, _ in known))
    return InputError(
        f"{function} expected {expected} as {name}, got {describe(value)}; {known[0][1]}"
    )


def _phrase(class_name: str) -> tuple[str, str]:
    """How a sentence names a class, and what it asks the caller to pass."""
    article = "an" if class_name[0] in "AEIOU" else "a"
    return _PHRASES.get(class_name, (f"{article} {class_name}", f"pass {article} {class_name}"))


def describe(value: Any) -> str:
    """A value as an error message names it: short, and with its type where that helps.

    >>> from regard.arguments import describe
    >>> describe(3), describe("text"), describe([]), describe(object)
    ('the number 3', "the text 'text'", 'an empty list', 'a type')
    """
    if value is None:
        return "None"
    if isinstance(value, bool | int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, os.PathLike | PurePath):
        return f"the path {os.fspath(value)!r}"
    name = type(value).__name__
    empty = isinstance(value, list | tuple | dict)
    if empty and not value:
        return f"an empty {name}"
    article = "an" if name[0] in "AEIOUaeiou" else "a"
    return f"{article} {name}"
