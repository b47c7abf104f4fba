"""Read JSON and TOML from untrusted files, and check values against type hints.

A file may be damaged or made to do harm, so every reader of the package parses through here:

    record = read_json(folder / "state.json")       # or parse_json(line, "line 3"), read_toml(path)
    check_record("the state", record, StateRecord)  # a TypedDict or a dataclass with type hints
    -> InputError: the state expected place.batch to be a whole number, got 0.5

- **Size.** A document of more than `max_bytes` is refused before it is parsed.
- **Depth.** A document with more than MAX_DEPTH lists and objects inside each other is refused, so
  that code that walks over it recursively cannot exhaust the stack.
- **NaN and Infinity** are parsed, because Python writes them, and so do some config.json of
  transformers. A `float` hint refuses them; `AnyFloat` is the hint where they are allowed.
- **Duplicate keys.** The last one counts, as in Python's json module and in transformers.
- **Whole numbers** may be of any size (a tokenizer_config.json says 10**30 for "no limit"). An
  `int` hint refuses those that do not fit into 64 bits.
"""

import json
import math
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from regard.errors import FileError, InputError, UnknownNameError

__all__ = [
    "MAX_DEPTH",
    "AnyFloat",
    "check_record",
    "check_value",
    "parse_json",
    "quote_value",
    "read_json",
    "read_toml",
]

MAX_DEPTH = 64
MAX_JSON_BYTES = 100_000_000  # also the longest header that readers of safetensors accept
MAX_TOML_BYTES = 1_000_000
_QUOTED_LENGTH = 80  # characters of a value that a message quotes
_NOT_IN_A_KEY = re.compile(rb"[^\w\"'. \t-]")
_LARGEST_INT = (1 << 63) - 1

AnyFloat = Annotated[float, "NaN and infinity are allowed"]


def read_json(
    path: Path, *, max_bytes: int = MAX_JSON_BYTES, advice: str = "write it again"
) -> dict[str, Any]:
    """The object in a JSON file; a FileError that ends with `advice` if the file holds none."""
    data = _read_bytes(path, max_bytes)
    try:
        record = _parse_json(data, str(path), "file")
    except InputError as error:
        raise FileError(f"{error}; {advice}") from None
    if not isinstance(record, dict):
        kind = type(record).__name__
        raise FileError(f"{path} should hold a JSON object, got {kind}; {advice}")
    return record


def parse_json(text: str | bytes, source: str) -> Any:
    """The value of a JSON text; an InputError that begins with `source` if there is none.

    >>> from regard.documents import parse_json
    >>> parse_json('{"steps": 5}', "the plan")
    {'steps': 5}
    >>> parse_json('{"steps": ', "the plan")
    Traceback (most recent call last):
    ...
    regard.errors.InputError: the plan is no whole JSON text (Expecting value: line 1 column 11)
    """
    return _parse_json(text, source, "text")


def _parse_json(text: str | bytes, source: str, noun: str) -> Any:
    """The value of a JSON text, which messages call a file or a text."""
    try:
        value = json.loads(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError:
        raise _depth_error(source) from None
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not UTF-8 text (byte {error.start:,})") from None
    except json.JSONDecodeError as error:
        place = f"{error.msg}: line {error.lineno} column {error.colno}"
        raise InputError(f"{source} is no whole JSON {noun} ({place})") from None
    except ValueError:  # Python refuses to parse whole numbers of thousands of digits
        raise InputError(f"{source} has a number with too many digits") from None
    return _check_depth(value, source)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; a FileError if it cannot be read."""
    data = _read_bytes(path, MAX_TOML_BYTES)
    # Parsing a dotted key takes time that grows with the square of its parts.
    if any(part.count(b".") > MAX_DEPTH for part in _NOT_IN_A_KEY.split(data)):
        raise FileError(str(_depth_error(str(path))))
    try:
        content = tomllib.loads(data.decode("utf-8"))
        _check_depth(content, str(path))
    except RecursionError:
        raise FileError(str(_depth_error(str(path)))) from None
    except InputError as error:
        raise FileError(str(error)) from None
    except ValueError as error:  # of TOML, of UTF-8, or of a number with thousands of digits
        raise FileError(f"{path} is no TOML: {error}") from None
    return content


def check_record(owner: str, record: Any, schema: type) -> None:
    """Raise an InputError unless a mapping has the fields of a TypedDict or dataclass, typed.

    >>> from typing import TypedDict
    >>> from regard.documents import check_record
    >>> class Place(TypedDict):
    ...     epoch: int
    >>> check_record("the state", {"epoch": 0.5}, Place)
    Traceback (most recent call last):
    ...
    regard.errors.InputError: the state expected epoch to be a whole number, got 0.5
    """
    if not isinstance(record, Mapping):
        raise InputError(f"{owner} should be an object, got {quote_value(record)}")
    _check_fields(owner, "", record, schema)


def check_value(owner: str, name: str, value: Any, hint: Any) -> None:
    """Raise an InputError unless a value has the type of a hint; `name` says which value it is.

    A hint may be a Union, a Literal, a TypedDict, a dataclass (its instances), Any, a class, or a
    list, tuple or mapping of such hints. A whole number is also a float; True is no number.
    """
    hints = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    matching = [choice for choice in hints if _has_type(value, choice)]
    if matching:
        _check_items(owner, name, value, matching[0])
        return
    literals = [
        literal for choice in hints if get_origin(choice) is Literal for literal in get_args(choice)
    ]
    if literals and all(isinstance(literal, str) for literal in [value, *literals]):
        raise UnknownNameError(f"{name} of {owner}", value, literals)
    expected = " or ".join(dict.fromkeys(map(_describe_hint, hints)))
    raise InputError(f"{owner} expected {name} to be {expected}, got {quote_value(value)}")


def quote_value(value: Any) -> str:
    """The value as a message quotes it: its repr, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number with thousands of digits
        return "a number with too many digits"
    return text if len(text) <= _QUOTED_LENGTH else f"{text[: _QUOTED_LENGTH - 1]}…"


def _read_bytes(path: Path, max_bytes: int) -> bytes:
    """The bytes of a file; a FileError if it cannot be read or has more than `max_bytes`."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # a ValueError for a name with a zero byte
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"cannot read {path}: {reason}") from error
    if len(data) > max_bytes:
        raise FileError(f"{path} has more than {max_bytes:,} bytes, too many for such a file")
    return data


def _check_depth(value: Any, source: str) -> Any:
    """The value itself; an InputError if lists and objects are nested too deeply in it."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for container in level
            if isinstance(container, dict | list)
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
        if not level:
            return value
    raise _depth_error(source)


def _depth_error(source: str) -> InputError:
    """The error for a document that is nested too deeply."""
    return InputError(
        f"{source} is nested too deeply: expected at most {MAX_DEPTH} lists and objects inside "
        "each other"
    )


def _check_items(owner: str, name: str, value: Any, hint: Any) -> None:
    """Check the items of a list, tuple, mapping or record against the hints inside its hint."""
    if is_typeddict(hint):
        _check_fields(owner, name, value, hint)
        return
    inner = get_args(hint)
    if not inner or isinstance(value, str):
        return
    if isinstance(value, Mapping) and _is_mapping(hint):
        for key, item in value.items():
            check_value(owner, f"a key of {name}", key, inner[0])
            check_value(owner, f"{name}[{key!r}]", item, inner[1])
    elif isinstance(value, list | tuple):
        item_hints = _item_hints(owner, name, value, hint)
        for index, (item, item_hint) in enumerate(zip(value, item_hints, strict=True)):
            # Lists of tokens are long, and nearly all of their items are of a plain type.
            if item_hint not in _WORDS or not _has_type(item, item_hint):
                check_value(owner, f"{name}[{index}]", item, item_hint)


def _check_fields(owner: str, name: str, record: Mapping[str, Any], schema: Any) -> None:
    """Check the fields of a record; one that its schema requires must be there."""
    required = _required_fields(schema)
    for field, hint in get_type_hints(schema, include_extras=True).items():
        path = f"{name}.{field}" if name else field
        if field in record:
            inner = get_args(hint)[0] if get_origin(hint) is NotRequired else hint
            check_value(owner, path, record[field], inner)
        elif field in required:
            raise InputError(f"{owner} lacks {path}")


def _required_fields(schema: Any) -> frozenset[str]:
    """The fields that a record of a TypedDict, or of a dataclass (those without default), needs."""
    if is_typeddict(schema):
        return frozenset(schema.__required_keys__)
    return frozenset(
        field.name
        for field in fields(schema)
        if field.default is MISSING and field.default_factory is MISSING
    )


def _item_hints(owner: str, name: str, value: Sequence[Any], hint: Any) -> Sequence[Any]:
    """The hint of each item of a list or tuple; an InputError if a tuple has another length."""
    inner = get_args(hint)
    if get_origin(hint) is not tuple or inner[-1] is Ellipsis:
        return [inner[0]] * len(value)
    if len(value) != len(inner):
        raise InputError(f"{owner} expected {name} to have {len(inner)} items, got {len(value)}")
    return inner


def _has_type(value: Any, hint: Any) -> bool:
    """True if the value is of the hint's class; items of containers are not looked at."""
    if hint is Any:
        return True
    if get_origin(hint) is Literal:
        return any(type(value) is type(known) and value == known for known in get_args(hint))
    if get_origin(hint) is Annotated:
        return _is_number(value)
    # bool is a subclass of int, but `layers = true` is a mistake.
    if hint is float:
        return _is_number(value) and _is_finite(value)
    if hint is int:
        return isinstance(value, int) and _is_number(value) and abs(value) <= _LARGEST_INT
    if is_typeddict(hint) or _is_mapping(hint):
        return isinstance(value, Mapping)
    origin = get_origin(hint) or hint
    # A record that was never written may have tuples where JSON has lists.
    return isinstance(value, list | tuple if origin is list else origin)


def _is_number(value: Any) -> bool:
    """True for an int or a float that is no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    """True for a number that a float can hold, which excludes very large whole numbers."""
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= sys.float_info.max


def _is_mapping(hint: Any) -> bool:
    """True for dict and Mapping, with or without the types of their items."""
    origin = get_origin(hint) or hint
    return isinstance(origin, type) and issubclass(origin, Mapping)


_WORDS = {
    int: "a whole number", float: "a number", bool: "true or false", str: "text",
    NoneType: "null", list: "a list", tuple: "a list",
}  # fmt: skip


def _describe_hint(hint: Any) -> str:
    """The type in words for an error message, such as "a whole number"."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if get_origin(hint) is Annotated:
        return _WORDS[float]
    if is_typeddict(hint) or _is_mapping(hint):
        return "an object"
    return _WORDS.get(get_origin(hint) or hint, str(hint))
