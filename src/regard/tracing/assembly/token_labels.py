"""Labels of tokens: those that the caller knows, patches of a picture, or plain positions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from regard.tracing.assembly.streams import WINDOW, Stream
from regard.tracing.dataflow.example_facts import ModelCall
from regard.types import Gap, Tokens

Grid = tuple[int, int]  # rows and columns of patches


@dataclass(frozen=True, eq=False)
class TokenLabels:
    """What only the caller of a model knows: the tokens, and which rows the hypotheses had.

    `tokens` has one mapping for each example: "tokens" for a model with one stream, "source" and
    "target" for one that attends from one to another; a stream of another name takes the tokens
    whose number fits. A target may have one token more than rows: the one produced last.
    `rows[step, example]` is the row of the batch that the kept hypothesis of the example had at
    each decoding step (the prompt is step 0), -1 after its end; None if rows never moved.
    """

    tokens: tuple[Mapping[str, Tokens], ...] = ()
    rows: Int[Tensor, "step example"] | None = None


@dataclass(frozen=True, eq=False)
class BlockInfo:
    """What is known of a watched block beside its records.

    `grids` are the rows and columns of a picture's patches, by where its stream began;
    `model_calls` what each call of the model tells of its examples.
    """

    labels: TokenLabels | None = None
    grids: Mapping[str, Grid] | None = None
    gaps: tuple[Gap, ...] = ()
    model_calls: Sequence[ModelCall] = ()


def label_tokens(
    streams: Iterable[Stream], trace: int, traces: int, info: BlockInfo
) -> dict[str, Tokens]:
    """The tokens of each stream of one of `traces` traces; positions where no labels surely fit."""
    labels = info.labels.tokens if info.labels is not None else ()
    free = dict(labels[trace]) if len(labels) == traces else {}
    present = [stream for stream in streams if stream.real[trace] is not None]
    present.sort(key=lambda stream: stream.name not in free)  # streams with labels choose first
    known, tokens = dict(free), dict[str, Tokens]()
    for stream in present:
        real = stream.real[trace]
        assert real is not None
        name = _find_labels(stream, len(real), known, free)
        free.pop(name or "", None)
        patches = _label_patches(stream, len(real), (info.grids or {}).get(stream.beginning))
        unlabelled = patches or Tokens.positions(len(real))
        # a stream with a grid is a picture: words of the same number are not its patches
        sure = name is not None and (patches is None or name == stream.name)
        tokens[stream.name] = known[name] if name is not None and sure else unlabelled
    return {stream.name: tokens[stream.name] for stream in streams if stream.name in tokens}


def _find_labels(
    stream: Stream, length: int, known: Mapping[str, Tokens], free: Mapping[str, Tokens]
) -> str | None:
    """Which of the known labels are the stream's: those of its name, or the only ones that fit."""
    if stream.beginning.endswith(WINDOW):
        return None
    for count in (length, length + 1) if stream.decoded else (length,):
        if stream.name in known:
            if len(known[stream.name]) == count:
                return stream.name
            continue
        for candidates in (free, known):
            fitting = [name for name, tokens in candidates.items() if len(tokens) == count]
            if fitting:
                return fitting[0] if len(fitting) == 1 else None
    return None


def _label_patches(stream: Stream, length: int, grid: Grid | None) -> Tokens | None:
    """The patches of a picture by row and column, after tokens that stand for no patch.

    Where layers on the way have merged patches 2 x 2, each side of the grid is half as long. None
    if the length does not fit a grid.
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
    return Tokens.patches((rows, columns), extra)
