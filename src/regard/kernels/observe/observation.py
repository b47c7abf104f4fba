"""The options of `observe` and the values that it returns."""

from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from regard.errors import InputError
from regard.kernels.observe.call import Scoring

RowNumbers = Float[Tensor, "*batch head query"]


@dataclass(frozen=True)
class ObserveOptions:
    """What `observe` should return besides the logsumexp, which it always returns.

    `top` is how many of the largest weights of each row to keep. `atlas` is the maximum number of
    cells on a side of each head's pooled map, 0 for no map; a larger number gives a finer map.

    >>> from regard.kernels.observe import ObserveOptions
    >>> ObserveOptions(top=8, atlas=1024)
    ObserveOptions(context=True, statistics=True, top=8, atlas=1024)
    """

    context: bool = True
    statistics: bool = True
    top: int = 0
    atlas: int = 512

    def __post_init__(self) -> None:
        for name in ("top", "atlas"):
            count = getattr(self, name)
            if not hasattr(count, "__index__") or not 0 <= count < 2**31:
                raise InputError(
                    f"ObserveOptions({name}=...) expected a whole number below 2**31 and at "
                    f"least 0, got {count}; 0 keeps nothing"
                )


@dataclass(frozen=True, eq=False)
class Statistics:
    """Exact numbers of each query's row of weights.

    If the call has a sink, the weights of a row's keys sum to 1 - on_sink. A fully masked row of a
    call without a sink has 0 everywhere and largest_key -1. A row that sees a score of NaN or plus
    infinity has no softmax: every number of it is NaN and largest_key is -1.
    """

    entropy: RowNumbers
    """In nats, over the keys and the sink together (the sink is one more outcome)."""
    largest: RowNumbers
    """The largest weight of a key; the sink does not compete."""
    largest_key: Int[Tensor, "*batch head query"]
    """The key with the largest weight, the first of equals; -1 where no key has any weight."""
    distance: RowNumbers
    """The sum over keys of weight x |key - query position|; the sink adds nothing."""
    on_first: RowNumbers
    """The weight of key 0."""
    on_self: RowNumbers
    """The weight of the key at the query's own position, 0 if there is none."""
    on_previous: RowNumbers
    """The weight of the key one before the query's position."""
    on_next: RowNumbers
    """The weight of the key one after the query's position."""
    on_future: RowNumbers
    """The weight of all keys after the query's position."""
    on_padding: RowNumbers
    """The weight of the keys that `padded` marks; 0 without it."""
    on_sink: RowNumbers
    """The sink's own share; 0 without one."""


@dataclass(frozen=True, eq=False)
class Top:
    """The largest weights of each row in falling order, and their keys.

    Where a row has fewer keys of any weight, the weight is 0 and the key -1; a row without a
    softmax has weights of NaN and keys of -1. The sink does not compete.
    """

    weights: Float[Tensor, "*batch head query top"]
    keys: Int[Tensor, "*batch head query top"]


@dataclass(frozen=True, eq=False)
class Atlas:
    """Each head's weight map, pooled to cells of `rows` queries x `columns` keys.

    Cell sides are powers of two from 8 up. Cells at the far edges may be partial: a mean is
    over the pairs that exist. The sink lies outside the map. All cells of a query whose row has no
    softmax are NaN.
    """

    mean: Float[Tensor, "*batch head cell_row cell_column"]
    largest: Float[Tensor, "*batch head cell_row cell_column"]
    rows: int
    columns: int


@dataclass(frozen=True, eq=False)
class Observation:
    """What one call of attention returned; parts that `ObserveOptions` left out are None.

    Gradients flow through the context; the statistics are constants. `lse` is the
    logsumexp of each row's scores, the sink included, -inf for a row that sees nothing and NaN for
    a row that sees a score of NaN or plus infinity.
    """

    context: Float[Tensor, "batch head query value_dim"] | None
    lse: RowNumbers
    statistics: Statistics | None
    top: Top | None
    atlas: Atlas | None
    scoring: Scoring
    """What the call did to its scores, as `window` and `received` need it."""


def cell_side(length: int, max_cells: int) -> int:
    """The smallest power of two, at least 8, that cuts `length` into at most `max_cells` cells."""
    side = 8
    while -(-length // side) > max_cells:
        side *= 2
    return side
