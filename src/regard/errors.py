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
]

_LONGEST_NAME = 80  # characters of an unknown name that a message quotes
_QUOTED_LENGTH = 200  # characters of a foreign error message that we quote


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
        # A name from a damaged file may be a megabyte long, which is neither similar nor quoted.
        name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        near = get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f" did you mean {near[0]!r}?" if near else ""
        super().__init__(f"no {kind} {name!r};{hint} Known: {', '.join(known)}")


class FileError(RegardError, OSError):
    """A file that is missing, broken or of another format."""


def first_line(error: Exception) -> str:
    """The first line of an error's message, cut if it is very long."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    message = lines[0] if lines else type(error).__name__
    return message if len(message) <= _QUOTED_LENGTH else f"{message[: _QUOTED_LENGTH - 1]}…"
