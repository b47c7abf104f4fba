"""Puts weights that were rearranged back in place: one map of queries by keys, exact.

Weights meet values in a product. The trail of the values says which key each of them is, that of
the weights which query. A map is made only if the keys that the weights were made from are those of
the values, and no weight goes from one example to another. Where each token scored itself, as in
pooling over patches, there are no queries, and each sum is a row. Parts of one call are joined only
while no row has more than the weights of one softmax.
"""

from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Float
from torch import Size, Tensor

from regard.tracing.dataflow.checkpoint_recompute import is_backward
from regard.tracing.dataflow.gaps import Gaps
from regard.tracing.dataflow.origins import (
    ManualWeights,
    Origin,
    StreamPair,
    StreamSide,
    WeightedValues,
    origin_of,
)
from regard.tracing.dataflow.places import sides_with_trails
from regard.tracing.dataflow.position_mixing import ReportWeights
from regard.tracing.dataflow.products import (
    Product,
    broadcast_letters,
    letter_sizes,
    spread_codes,
)
from regard.tracing.dataflow.trails import (
    Codes,
    ReplayError,
    Trail,
    first_of,
    fit_codes,
    split_tokens,
)
from regard.tracing.readable import are_readable, detach_untraced
from regard.tracing.sites import Sites

MAX_NUMBERS = 1 << 26  # of one map
_MANY_FEATURES = 1 << 22
_FULL = 1.01  # the sum of a row of weights, up to rounding
TOO_LARGE = (
    "its keys are rearranged into blocks, and its map of queries by keys would have more than "
    f"{MAX_NUMBERS:,} numbers; watch it on a shorter input"
)


@dataclass(frozen=True, eq=False)
class WeightedProduct:
    """A product of weights and values that is summed over keys, with the origins of both.

    `letters` are those that einsum would use for the axes of weights and values, `shape` is that
    of the values, and `key_axis` the axis of the weights that is summed over.
    """

    weights: Tensor
    origin: Origin
    values_origin: Origin
    shape: Size
    letters: tuple[str, str]
    key_axis: int

    @property
    def pair(self) -> StreamPair:
        """The two sides of the weights."""
        return self.origin.pair_or_self

    @property
    def sizes(self) -> dict[str, int]:
        """The size of the axis of each letter; an axis of size one is broadcast."""
        return letter_sizes(self.letters, (self.weights.shape, self.shape))

    @property
    def is_to_place(self) -> bool:
        """True if queries or keys may not be where they seem to be."""
        stage = self.origin.stage
        if isinstance(stage, ManualWeights) and stage.is_rearranged:
            return True
        return self.has_padding or (self.is_by_neighbours and self.values_origin.trail is not None)

    @property
    def has_padding(self) -> bool:
        """True if there are more rows or columns than tokens, as of blocks that are filled up."""
        return any(
            side.trail is not None
            and side.trail.is_padded
            and side.axis
            and self.weights.shape[side.axis] > side.trail.tokens
            for side in self.pair[:2]
        )

    def is_in_blocks(self, batch: int) -> bool:
        """True if an axis before the queries may hold blocks of tokens, and no heads.

        The tokens of both sides lie on two axes then: (2, 4, 8, 32) are four blocks of 8 tokens.
        """
        left, right = self.pair[:2]
        if self.weights.dim() < 4 or left.trail is None or right.trail is None:
            return False
        in_place = any(side.layout in ("grid", "picture") for side in (left, right))
        return not (left.whole or right.whole) and (in_place or len(self.weights) == batch)

    @property
    def is_by_neighbours(self) -> bool:
        """True if weights were made by no product of queries and keys.

        Each query may make those of its neighbours (Wu et al. 2019), or each key its own.
        """
        return self.pair.right.layout == "features" and not self.pair.is_product


@dataclass(frozen=True, eq=False)
class PlacedWeights:
    """A map of queries by keys, and the two sides that it is of."""

    weights: Float[Tensor, "batch head query key"]
    pair: StreamPair

    def takes(self, other: "PlacedWeights") -> bool:
        """True if another part fits in: no row has more than the weights of one softmax."""
        streams = [(part.pair.left.stream, part.pair.right.stream) for part in (self, other)]
        if self.weights.shape != other.weights.shape or streams[0] != streams[1]:
            return False
        return bool((self.weights.sum(-1) + other.weights.sum(-1)).max() < _FULL)


def place_weights(met: WeightedProduct, batch: int) -> PlacedWeights | str | None:
    """The map of rearranged weights that meet their values; a reason if it is too large.

    None if the rearrangement cannot be followed, or if what it says does not agree.
    """
    values = sides_with_trails(met.values_origin, met.shape)[0]
    sides = [met.pair.left] if met.is_by_neighbours else list(met.pair[:2])
    if met.values_origin.pair is not None or values is None:
        return None
    if any(side.trail is None for side in sides):
        return None
    most = max(values.tokens, *(side.trail.tokens for side in sides if side.trail is not None))
    if max(batch, 1) * most**2 > MAX_NUMBERS:
        return TOO_LARGE
    try:
        with torch.device(met.weights.device):
            return _Replay(met, values, max(batch, 1)).place()
    except (ReplayError, RuntimeError, IndexError, TypeError):
        return None


class _Replay:
    """The rearrangement of one product, done again with codes."""

    def __init__(self, met: WeightedProduct, values: Trail, batch: int) -> None:
        self.met, self.batch = met, batch
        self.keys_at_start = values.tokens
        self._known: dict[Trail, Codes] = {}
        own, theirs = met.letters
        value_codes = fit_codes(values.replay(batch, self._known), met.shape)
        spread = spread_codes(value_codes, theirs, own, met.sizes)
        self.keys, self.key_features = first_of(spread.expand(met.weights.shape), ())

    def place(self) -> PlacedWeights | None:
        """The map, with the side as keys that the weights and the values agree on."""
        if self.met.is_by_neighbours:
            return self._place_unmatched(self.met.pair.left)
        for pair in (self.met.pair, self.met.pair.swapped):
            seen, _ = self._read_side(pair.right)
            both = (seen >= 0) & (self.keys >= 0)
            same_keys = torch.equal(seen[both], self.keys[both])
            if same_keys and pair.right.trail.tokens == self.keys_at_start:  # type: ignore[union-attr]
                return self._place_rows(pair.left, *self._read_side(pair.left))
        return None

    def _place_unmatched(self, side: StreamSide) -> PlacedWeights | None:
        """Weights that each query made for its neighbours, or each key for itself.

        None if all that is summed belongs to one token, as the outputs of experts do.
        """
        axis, (queries, features) = self.met.key_axis, self._read_side(side)
        if torch.equal(self.keys.amin(axis), self.keys.amax(axis)):
            return None
        # the features of a row are its weights
        features = features.amin(axis, keepdim=True).expand(features.shape)
        used = (queries >= 0) & (self.keys >= 0)
        if torch.equal(queries[used], self.keys[used]):  # no queries: a row for each sum
            first = queries.where(queries >= 0, queries.max()).amin(axis, keepdim=True)
            queries = first.expand(queries.shape)
            side = StreamSide(None, -2, "constant")
        return self._place_rows(side, queries, features)

    def _read_side(self, side: StreamSide) -> tuple[Tensor, Tensor]:
        """The token and the feature of each weight on one of its sides."""
        assert side.trail is not None
        codes = side.trail.replay(self.batch, self._known)
        return first_of(fit_codes(codes, self.met.weights.shape), ())

    def _place_rows(
        self, side: StreamSide, queries: Tensor, features: Tensor
    ) -> PlacedWeights | None:
        """The weights where their queries and keys say; None if they are of two examples."""
        used = (queries >= 0) & (self.keys >= 0)
        examples, rows = split_tokens(queries[used])
        key_examples, columns = split_tokens(self.keys[used])
        weights, apart = self.met.weights[used], examples != key_examples
        if not used.any() or weights[apart].any():
            return None
        heads = _number_heads(features[used], self.key_features[used])
        if side.trail is None:
            rows = _rank(rows)
        count = int(rows.max()) + 1 if side.trail is None else side.trail.tokens
        sizes = (self.batch, int(heads.max()) + 1, count, self.keys_at_start)
        if prod(sizes) > MAX_NUMBERS:
            raise ReplayError
        placed = weights.new_zeros(sizes)
        placed.index_put_((examples, heads, rows, columns), weights, accumulate=True)
        left = StreamSide(side.stream, -2, side.layout if side.trail is None else "tokens")
        right = StreamSide(self.met.values_origin.stream, -1)
        return PlacedWeights(placed, StreamPair(left, right, True))


def _number_heads(queries: Tensor, keys: Tensor) -> Tensor:
    """The head of each weight: heads read other features of the queries, or of the values."""
    return _rank(_rank(queries) * (int(keys.max()) + 1) + _rank(keys))


def _rank(numbers: Tensor) -> Tensor:
    """Each number as its rank among those that occur."""
    if int(numbers.max()) > _MANY_FEATURES:
        ranks: Tensor = torch.unique(numbers, return_inverse=True)[1]
        return ranks
    occurs = torch.zeros(int(numbers.max()) + 1, dtype=torch.long)
    occurs[numbers] = 1
    return (occurs.cumsum(0) - 1)[numbers]


class RearrangedAttention:
    """Reports maps of rearranged attention, with the parts of one call joined into one map.

    Parts are other queries, or other columns of one softmax. The map that was reported first is
    completed in place.
    """

    def __init__(self, sites: Sites, gaps: Gaps, report: ReportWeights) -> None:
        self._sites, self._gaps, self._report = sites, gaps, report
        self._last: tuple[str, PlacedWeights] | None = None

    def begin_model_call(self) -> None:
        """Let the next part begin a new map."""
        self._last = None

    def meet(self, product: Product, weights: Tensor, values: Tensor) -> bool:
        """Report weights that can be put back in place; False if they need not or cannot."""
        place = int(weights is product.right)
        met = WeightedProduct(
            detach_untraced(weights),
            origin_of(weights),
            origin_of(values),
            values.shape,
            (product.letters[place], product.letters[1 - place]),
            product.sides[place].summed[0],
        )
        return self._place(met)

    def meet_elementwise(self, origin: Origin, stage: WeightedValues, axis: int) -> bool:
        """The same for weights that were multiplied number by number, and are summed over keys."""
        letters = broadcast_letters(stage.factor.shape, stage.shape)
        met = WeightedProduct(stage.factor, origin, stage.values, stage.shape, letters, axis)
        return self._place(met)

    def _place(self, met: WeightedProduct) -> bool:
        is_to_place = met.is_to_place or met.is_in_blocks(self._sites.batch)
        if not is_to_place or is_backward() or not are_readable((met.weights,)):
            return False
        placed, site = place_weights(met, self._sites.batch), self._sites.here
        if isinstance(placed, str):
            self._gaps.add(site, placed)
        elif placed is not None and not self._join(site, placed):
            self._last = (site, placed)
            self._report(ManualWeights(placed.weights, placed.weights, placed.pair), None)
        return placed is not None

    def _join(self, site: str, placed: PlacedWeights) -> bool:
        """Add a part to the map before it; False if it begins a new one."""
        last = self._last
        if last is None or last[0] != site or not last[1].takes(placed):
            return False
        last[1].weights.add_(placed.weights)
        return True
