"""What a view shows at the moment: a small frozen value, as JSON and as the hash of an address.

Page, notebook, figure and terminal are all drawn from a scene and a `ViewState`. FORMAT.md in the
page's folder describes the JSON and the hash, which the front end reads and writes too.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, get_args
from urllib.parse import quote, unquote

from regard.documents import check_record, check_value, quote_value
from regard.errors import InputError, UnknownNameError
from regard.views.kinds import KINDS

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
class MapReference:
    """A map of a scene, by its trace, site and head: what another map is compared with.

    Without a site it is the first one, without a head the mean over heads.
    """

    trace: int = 1
    site: str | None = None
    head: int | None = None


@dataclass(frozen=True)
class ViewState:
    """Which kind of picture of which site, head and token, and how its numbers are processed.

    `view` is the name of a kind, `place` the row or column (by `axis`) that is pinned, `heads` the
    heads whose lines a flow shows, `depth` over what highlighted text is averaged, `label` whether
    rows are called by what they read or produced, `other` what a comparison compares with, and
    `finding` the open finding of a report.

    >>> from regard.views.state import ViewState
    >>> ViewState(view="heatmap", site="h.0", head=3, hide=("first",)).to_hash()
    '#view=heatmap&site=h.0&head=3&hide=first'
    """

    view: str = "heads"
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
    other: MapReference | None = None
    finding: int | None = None
    language: Language | None = None
    theme: Theme | None = None

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            value = getattr(self, name)
            if value not in known and (value is not None or name not in _NULLABLE):
                raise UnknownNameError(name, str(value), known)
        for hidden in self.hide:
            if hidden not in get_args(Hidden):
                raise UnknownNameError("kind of token to hide", str(hidden), get_args(Hidden))
        for name in ("head", "place", "finding"):
            _check_count(name, getattr(self, name))
        _check_count("trace", -1 if self.trace is None else self.trace)
        if self.threshold is not None and not (
            _is_number(self.threshold) and 0 <= self.threshold <= 1
        ):
            raise InputError(f"expected a threshold from 0 to 1, got {self.threshold!r}")
        hide = tuple(hidden for hidden in get_args(Hidden) if hidden in self.hide)
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
    def from_json(cls, state: Mapping[str, Any]) -> "ViewState":
        """The state of these JSON types; fields that are missing have their defaults."""
        if not isinstance(state, Mapping):
            raise InputError(f"expected a state as an object, got {quote_value(state)}")
        known = {field.name for field in fields(cls)}
        for name in state:
            if name not in known:
                raise UnknownNameError("part of a state", name, sorted(known))
        parts = dict(state)
        for name in ("hide", "heads"):
            if isinstance(parts.get(name), list):
                parts[name] = tuple(parts[name])
        if parts.get("other") is not None:
            parts["other"] = _map_reference(parts["other"])
        for name, hint in _UNCHECKED.items():
            if name in parts:
                check_value("the state of a view", name, parts[name], hint)
        view_state = cls(**parts)
        check_record("the state of a view", vars(view_state), cls)
        return view_state

    def to_hash(self, default: "ViewState | None" = None) -> str:
        """The hash of an address: the fields that differ from a default state."""
        default = default or ViewState()
        parts = [
            f"{name}={quote(_field_text(value), safe=_SAFE)}"
            for name, value in self._items()
            if value != getattr(default, name)
        ]
        return "#" + "&".join(parts)

    def _items(self) -> list[tuple[str, Any]]:
        """The names and values of all fields."""
        return [(field.name, getattr(self, field.name)) for field in fields(self)]

    @classmethod
    def from_hash(cls, text: str, default: "ViewState | None" = None) -> "ViewState":
        """The state that a hash describes; what cannot be read stays as in the default state."""
        state = default or cls()
        for part in text.removeprefix("#").split("&"):
            name, _, value = part.partition("=")
            if name in _READERS:
                try:
                    read: Any = _READERS[name](unquote(value)) if value or name == "hide" else None
                    state = replace(state, **{name: read})
                except (ValueError, TypeError):
                    continue
        return state


_SAFE = "-_.!~*'()"  # what encodeURIComponent leaves as it is
# Fields whose type the constructor takes for granted.
_UNCHECKED: dict[str, Any] = {
    "site": str | None,
    "hide": tuple[str, ...],
    "heads": tuple[int, ...] | None,
}
_NULLABLE = ("label", "language", "theme")
_CHOICES: dict[str, tuple[Any, ...]] = {
    "view": tuple(KINDS),
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
    """True for an int or float; a bool is an int in Python, but no number here."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_count(name: str, value: Any) -> None:
    """Refuse what is no whole number from 0."""
    if value is not None and not (
        isinstance(value, int) and not isinstance(value, bool) and value >= 0
    ):
        raise InputError(f"expected a whole number of 0 and more for the {name}, got {value!r}")


def _map_reference(state: Any) -> MapReference:
    """The map reference of these JSON types."""
    if not isinstance(state, Mapping) or not {*state} <= {"trace", "site", "head"}:
        raise InputError(f"expected trace, site and head of the other side, got {state!r}")
    check_record("the other side", state, MapReference)
    reference = MapReference(**state)
    for name in ("trace", "head"):
        _check_count(name, getattr(reference, name))
    return reference


def _field_text(value: Any) -> str:
    """A field as it is written into the hash of an address."""
    if isinstance(value, MapReference):
        head = "" if value.head is None else value.head
        return f"{value.trace},{head},{value.site or ''}"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _read_numbers(text: str) -> tuple[int, ...]:
    """The whole numbers of a field of the hash, such as `heads=0,3`."""
    return tuple(int(number) for number in text.split(","))


def _read_hidden(text: str) -> tuple[str, ...]:
    """The kinds of tokens that a field of the hash hides; an empty text hides none."""
    return tuple(text.split(",")) if text else ()


def _read_other(text: str) -> MapReference:
    """The map reference that `_field_text` wrote."""
    trace, head, site = text.split(",", 2)
    return _map_reference(
        {"trace": int(trace), "site": site or None, "head": int(head) if head else None}
    )


_READERS: dict[str, Any] = dict.fromkeys(_CHOICES, str) | {
    "trace": int,
    "site": str,
    "head": int,
    "heads": _read_numbers,
    "place": int,
    "hide": _read_hidden,
    "threshold": float,
    "other": _read_other,
    "finding": int,
}
