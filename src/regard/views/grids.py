"""The grid of patches of a stream whose model does not tell it, such as a ViT written by hand.

A model that makes patches by a convolution tells their rows and columns, and its trace has them.
One that cuts the picture itself and multiplies by a matrix has tokens that are called by position:

    0  1  2  ...  196        197 tokens: a class token, then 14 x 14 patches row by row

The grid is recognised if the number of tokens is a square, or a square and one class token; any
other grid is for the caller to give.
"""

from dataclasses import replace
from math import isqrt

from regard.errors import InputError
from regard.types import Tokens, Trace

__all__ = ["Grid", "add_grid", "has_grid"]

Grid = tuple[int, int]  # rows and columns of patches
# Tokens before the patches: none, a class token, class and distillation token (DeiT), class token
# and four registers (DINOv2).
_EXTRA_TOKENS = (0, 1, 2, 5)


def has_grid(trace: Trace, site: str) -> bool:
    """True if the columns of a site are known to be the patches of a picture."""
    return trace.streams[trace[site].columns.stream].grid is not None


def add_grid(trace: Trace, site: str | None, grid: Grid | None = None) -> tuple[Trace, str]:
    """The trace with patches as the columns of a site, and that site; without a site the first.

    Without a grid it is recognised; an InputError says how to give one.
    """
    if grid is not None:
        _check_grid(grid)
    candidates = [each.site for each in trace.maps] if site is None else [site]
    for name in candidates:
        stream = trace[name].columns.stream
        tokens = trace.streams[stream]
        found = _find_grid(tokens, grid)
        if found is not None:
            patches = Tokens.patches(found, len(tokens) - found[0] * found[1])
            return replace(trace, streams={**trace.streams, stream: patches}), name
    raise InputError(_refusal(trace, candidates, grid))


def _find_grid(tokens: Tokens, grid: Grid | None) -> Grid | None:
    """The grid that fits the number of tokens: the one that was given, else a square."""
    count = len(tokens)
    if grid is not None:
        patches = grid[0] * grid[1]
        return grid if patches <= count < 2 * patches else None
    if tokens.named:  # words are no patches, whatever their number
        return None
    for extra in _EXTRA_TOKENS:
        side = isqrt(max(0, count - extra))
        if side > 1 and side * side == count - extra:
            return side, side
    return None


def _check_grid(grid: Grid) -> None:
    """Refuse what is no pair of positive whole numbers."""
    sides = tuple(grid) if isinstance(grid, tuple | list) else ()
    whole = all(isinstance(side, int) and not isinstance(side, bool) for side in sides)
    if len(sides) != 2 or not whole or min(sides) < 1:
        raise InputError(f"grid expected rows and columns, such as (14, 14), got {grid!r}")


def _refusal(trace: Trace, sites: list[str], grid: Grid | None) -> str:
    """Why no grid fits, with the numbers of tokens that there are."""
    counts = {site: len(trace.streams[trace[site].columns.stream]) for site in sites}
    tokens = " or ".join(dict.fromkeys(f"{count}" for count in counts.values())) or "no"
    if grid is not None:
        return (
            f"a grid of {grid[0]} x {grid[1]} has {grid[0] * grid[1]} patches, and the columns of "
            f"{sites[0] if len(sites) == 1 else 'this trace'} are {tokens} tokens; give the rows "
            "and columns of the patches, such as grid=(14, 14)"
        )
    return (
        f"no stream of this trace has a grid of patches (it has {tokens} tokens); trace a model "
        "that looks at an image, or give the rows and columns of its patches, such as "
        "grid=(14, 14)"
    )
