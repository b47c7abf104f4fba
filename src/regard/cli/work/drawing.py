"""The view of a trace that the options of `regard look` ask for."""

from dataclasses import dataclass

from regard.errors import InputError
from regard.types import Trace
from regard.views import View, view
from regard.views.choose import choose_site
from regard.views.kinds import view_kind


@dataclass(frozen=True)
class Wish:
    """Which picture of which site, head and token; None is what is usual for the trace."""

    view: str | None = None
    layer: str | None = None
    head: int | None = None
    query: str | None = None
    language: str = "en"


def draw(trace: Trace, wish: Wish, picture: bytes | None = None) -> View:
    """The view of the trace that was wished for."""
    layer = wish.layer
    site = choose_site(trace, int(layer) if layer is not None and layer.isdecimal() else layer)
    _check_length(trace, site, wish.view)
    return view(
        trace,
        wish.view,
        site=site,
        head=wish.head,
        query=wish.query,
        picture=picture,
        language=wish.language,
    )


def _check_length(trace: Trace, site: str, kind: str | None) -> None:
    """Refuse a text that is too long for the kind of picture, in the words of the options."""
    most = None if kind is None else view_kind(kind).most_tokens
    longest = max(trace[site].shape[1:])
    if most is not None and longest > most:
        raise InputError(
            f"--view {kind} shows {most:,} tokens at most, got {longest:,}; show fewer with "
            f"--limit {most}, or all with --view heatmap"
        )
