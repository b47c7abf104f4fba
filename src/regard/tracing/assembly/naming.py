"""What the tokens of a trace are called: as the caller told, as patches of a picture, by place."""

from collections.abc import Iterable, Mapping

from regard.tracing.assembly.streams import WINDOW, Stream
from regard.tracing.assembly.token_labels import Notes
from regard.types import Tokens

Grid = tuple[int, int]


def name_tokens(
    streams: Iterable[Stream], trace: int, traces: int, notes: Notes
) -> dict[str, Tokens]:
    """The tokens of each stream that the trace has; plain positions where nothing surely fits."""
    told = notes.told.tokens if notes.told is not None else ()
    free = dict(told[trace]) if len(told) == traces else {}
    there = [each for each in streams if each.real[trace] is not None]
    there.sort(key=lambda stream: stream.name not in free)  # those that are named choose first
    known, found = dict(free), dict[str, Tokens]()
    for stream in there:
        run = stream.real[trace]
        assert run is not None
        name = _choice(stream, len(run), known, free)
        free.pop(name or "", None)
        grid = _patches(stream, len(run), (notes.grids or {}).get(stream.begun))
        plain = grid or Tokens.positions(len(run))
        # a stream with a grid is a picture: words of the same number are not its patches
        sure = name is not None and (grid is None or name == stream.name)
        found[stream.name] = known[name] if name is not None and sure else plain
    return {each.name: found[each.name] for each in streams if each.name in found}


def _choice(
    stream: Stream, length: int, known: Mapping[str, Tokens], free: Mapping[str, Tokens]
) -> str | None:
    """Which of the known tokens are the stream's: those of its name, or whose number fits."""
    if stream.begun.endswith(WINDOW):
        return None
    for count in (length, length + 1) if stream.decoded else (length,):
        if stream.name in known:
            if len(known[stream.name]) == count:
                return stream.name
            continue
        for among in (free, known):
            fit = [name for name, tokens in among.items() if len(tokens) == count]
            if fit:
                return fit[0] if len(fit) == 1 else None
    return None


def _patches(stream: Stream, length: int, grid: Grid | None) -> Tokens | None:
    """The patches of a picture by row and column, after the tokens that stand for none.

    Where layers on the way have merged patches by 2 x 2, each side is half as long.
    """
    if grid is None:
        return None
    rows, columns = grid
    merged = False
    while rows * columns > length and rows * columns > 1:
        rows, columns, merged = -(-rows // 2), -(-columns // 2), True
    extra = length - rows * columns
    if extra and (merged or extra >= rows * columns):
        return None
    places = [f"{row},{column}" for row in range(rows) for column in range(columns)]
    return Tokens(
        tuple([f"[{number}]" for number in range(extra)] + places),
        special=(True,) * extra + (False,) * len(places),
        grid=(rows, columns),
    )
