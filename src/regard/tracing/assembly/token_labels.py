"""What only the caller of a model knows: the tokens, and which rows of a batch went on as which."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from regard.types import Gap, Tokens


@dataclass(frozen=True, eq=False)
class TokenLabels:
    """The tokens of each example by stream, and, where rows moved while decoding, whose they were.

    `tokens` has one mapping for each example: "tokens" of a model with one stream, "source" and
    "target" of one that looks from one to another; a stream of another name takes the tokens whose
    number fits. A target may have one token more than it has rows: the one produced last.
    `rows[step, example]` is the row of the batch that the kept hypothesis of the example had at
    each decoding step (the prompt is step 0), -1 after its end; None if rows never moved.
    """

    tokens: tuple[Mapping[str, Tokens], ...] = ()
    rows: Int[Tensor, "step example"] | None = None


@dataclass(frozen=True, eq=False)
class Notes:
    """Beside the calls: what the caller told, grids of patches by stream, and gaps.

    `alignment_layer` counts the cross-attention maps of a trace: the one that pictures show first.
    """

    told: TokenLabels | None = None
    grids: Mapping[str, tuple[int, int]] | None = None
    gaps: tuple[Gap, ...] = ()
    alignment_layer: int | None = None
