"""The exceptions a caller may catch; each message says what was expected, what came, what to do.

RegardError
├── InputError            a value that the function cannot take      (also a ValueError)
│   ├── ShapeError        tensors whose sizes do not fit together
│   ├── NotFiniteError    NaN or infinity where a number is needed
│   └── UnknownNameError  a name that is not in the catalog          (also a LookupError)
└── FileError             a file that is missing, broken or foreign  (also an OSError)
"""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "FileError",
    "InputError",
    "NotFiniteError",
    "RegardError",
    "ShapeError",
    "UnknownNameError",
    "first_line",
    "nearest_name",
]

_QUOTED_NAME = 80  # characters of an unknown name that a message quotes
_QUOTED_LENGTH = 200  # characters of a foreign error message that we quote
_LONGEST_NAME = 200  # characters of a name that are compared with those that are known


class RegardError(Exception):
    """The base of every error that `regard` raises on purpose."""


class InputError(RegardError, ValueError):
    """A value that the function cannot take."""


class ShapeError(InputError):
    """Tensors whose sizes do not fit together."""


class NotFiniteError(InputError):
    """NaN or infinity where a number is needed."""


class UnknownNameError(InputError, LookupError):
    """A name that is not known; the message names the nearest one that is.

    >>> from regard.errors import UnknownNameError
    >>> str(UnknownNameError("mechanism", "adittive", ["additive", "dot"]))
    "no mechanism 'adittive'; did you mean 'additive'? Known: additive, dot"
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        near = nearest_name(name, known, least=0.5)
        hint = "" if near is None else f" did you mean {near!r}?"
        # a name from a damaged file may be a megabyte long
        name = name if len(name) <= _QUOTED_NAME else f"{name[: _QUOTED_NAME - 1]}…"
        super().__init__(f"no {kind} {name!r};{hint} Known: {', '.join(known)}")


class FileError(RegardError, OSError):
    """A file that is missing, broken or of another format."""


def nearest_name(name: str, known: Iterable[str], *, least: float = 0.6) -> str | None:
    """The known name that is spelled most like this one; None if none is at least so similar.

    `least` is a similarity from 0 (nothing in common) to 1 (the same).
    """
    # the comparison takes quadratic time, and names of files may be a megabyte long
    short = [other for other in known if len(other) <= _LONGEST_NAME]
    near = get_close_matches(name[:_LONGEST_NAME], short, n=1, cutoff=least)
    return near[0] if near else None


def first_line(error: Exception) -> str:
    """The first line of an error's message, cut if it is very long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    return message if len(message) <= _QUOTED_LENGTH else f"{message[: _QUOTED_LENGTH - 1]}…"
