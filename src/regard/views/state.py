"""What is being looked at: a small frozen value, as JSON and as the hash of an address."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args
from urllib.parse import quote, unquote

from regard.errors import InputError, UnknownNameError

View = Literal["heads", "heatmap", "highlight", "flow", "image", "compare"]
Unit = Literal["piece", "word", "sentence"]
Scale = Literal["linear", "log", "row"]
AxisName = Literal["row", "column"]
Span = Literal["layers", "all", "time"]
Depth = Literal["head", "layer", "all"]
Language = Literal["en", "zh"]
Theme = Literal["light", "dark"]
Hidden = Literal["first", "special"]
Label = Literal["read", "produced"]


@dataclass(frozen=True)
class Place:
    """The trace, site and head that another is compared with."""

    trace: int = 1
    site: str | None = None
    head: int | None = None


@dataclass(frozen=True)
class State:
    """Which view of which site, head and token, and what is done to the numbers.

    >>> from regard.views.state import State
    >>> State(view="heatmap", site="h.0", head=3, hide=("first",)).to_hash()
    '#view=heatmap&site=h.0&head=3&hide=first'
    """

    view: View = "heads"
    trace: int = 0
    site: str | None = None
    head: int | None = None
    heads: tuple[int, ...] | None = None
    axis: AxisName = "row"
    place: int | None = None
    span: Span = "layers"
    depth: Depth = "head"
    label: Label | None = None
    unit: Unit = "piece"
    hide: tuple[Hidden, ...] = ()
    scale: Scale = "linear"
    threshold: float | None = None
    other: Place | None = None
    finding: int | None = None
    language: Language | None = None
    theme: Theme | None = None

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known and (value is not None or name not in _NULLABLE):
                raise UnknownNameError(name, str(value), known)
        for each in self.hide:
            if each not in get_args(Hidden):
                raise UnknownNameError("kind of token to hide", str(each), get_args(Hidden))
        for name in ("head", "place", "finding"):
            _check_count(name, getattr(self, name))
        _check_count("trace", -1 if self.trace is None else self.trace)
        if self.threshold is not None and not (
            _is_number(self.threshold) and 0 <= self.threshold <= 1
        ):
            raise InputError(f"expected a threshold from 0 to 1, got {self.threshold!r}")
        hide = tuple(each for each in get_args(Hidden) if each in self.hide)
        object.__setattr__(self, "hide", hide)
        if self.heads is not None:
            for head in self.heads:
                _check_count("head", head)
            object.__setattr__(self, "heads", tuple(sorted({*self.heads})))

    def to_json(self) -> dict[str, Any]:
        """The state as JSON types."""
        state = asdict(self)
        state["hide"] = list(self.hide)
        state["heads"] = None if self.heads is None else list(self.heads)
        return state

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "State":
        """The state that these JSON types say; what they leave out is as usual."""
        known = {each.name for each in fields(cls)}
        for name in state:
            if name not in known:
                raise UnknownNameError("part of a state", name, sorted(known))
        parts = dict(state)
        for name in ("hide", "heads"):
            if isinstance(parts.get(name), list):
                parts[name] = tuple(parts[name])
        if parts.get("other") is not None:
            parts["other"] = _place(parts["other"])
        return cls(**parts)

    def to_hash(self, usual: "State | None" = None) -> str:
        """The hash of an address, with what differs from the usual state."""
        usual = usual or State()
        found = [
            f"{name}={quote(_spelled(value), safe=_SAFE)}"
            for name, value in self._items()
            if value != getattr(usual, name)
        ]
        return "#" + "&".join(found)

    def _items(self) -> list[tuple[str, Any]]:
        return [(each.name, getattr(self, each.name)) for each in fields(self)]

    @classmethod
    def from_hash(cls, text: str, usual: "State | None" = None) -> "State":
        """The state that a hash says; what cannot be read stays as usual."""
        state = usual or cls()
        for part in text.removeprefix("#").split("&"):
            name, _, value = part.partition("=")
            if name in _READ:
                try:
                    found: Any = _READ[name](unquote(value)) if value or name == "hide" else None
                    state = replace(state, **{name: found})
                except (ValueError, TypeError):
                    continue
        return state


_SAFE = "-_.!~*'()"  # what encodeURIComponent leaves as it is
_NULLABLE = ("label", "language", "theme")
_CHOICES: dict[str, tuple[Any, ...]] = {
    "view": get_args(View),
    "axis": get_args(AxisName),
    "span": get_args(Span),
    "depth": get_args(Depth),
    "label": get_args(Label),
    "unit": get_args(Unit),
    "scale": get_args(Scale),
    "language": get_args(Language),
    "theme": get_args(Theme),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_count(name: str, value: Any) -> None:
    if value is not None and not (
        isinstance(value, int) and not isinstance(value, bool) and value >= 0
    ):
        raise InputError(f"expected a whole number of 0 and more for the {name}, got {value!r}")


def _place(state: Any) -> Place:
    if not isinstance(state, Mapping) or not {*state} <= {"trace", "site", "head"}:
        raise InputError(f"expected trace, site and head of the other side, got {state!r}")
    place = Place(**state)
    for name in ("trace", "head"):
        _check_count(name, getattr(place, name))
    return place


def _spelled(value: Any) -> str:
    if isinstance(value, Place):
        head = "" if value.head is None else value.head
        return f"{value.trace},{head},{value.site or ''}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(","))


def _hidden(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def _other(text: str) -> Place:
    trace, head, site = text.split(",", 2)
    return _place({"trace": int(trace), "site": site or None, "head": int(head) if head else None})


_READ: dict[str, Any] = dict.fromkeys(_CHOICES, str) | {
    "trace": int,
    "site": str,
    "head": int,
    "heads": _numbers,
    "place": int,
    "hide": _hidden,
    "threshold": float,
    "other": _other,
    "finding": int,
}
