"""`CallRecord`: one attention call of all examples of a batch, from its description to the trace.

The record grows in three stages. *Described*: where the call is, its streams, queries, keys, and
either a scoring or weights. *Observed*: what the kernel measured, and what the caller wants kept
beside it. *Stacked*: where the call stands among the decoding steps that it continues.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.observe import Observation, Scoring
from regard.masks import Mask
from regard.tracing.dataflow.output_projection import OutputProjection
from regard.tracing.head_shards import HeadShard
from regard.tracing.recording.pending import PendingObservation
from regard.types.maps import MapKind

RunKey = tuple[str, str | None, str | None]  # site, stream of queries, stream of keys


class GradientSlot:
    """Takes the gradient of a context when one comes; several are summed, as in `.grad`."""

    def __init__(self, gradient: Tensor | None = None) -> None:
        self.gradient = gradient

    def add(self, gradient: Tensor) -> None:
        """Add a gradient."""
        detached = gradient.detach()
        self.gradient = detached.clone() if self.gradient is None else self.gradient + detached


@dataclass(frozen=True, eq=False)
class EditedWeights:
    """Weights that some heads used in place of their own.

    In stacked calls, their first row and column are `row` and `column` of the whole.
    """

    heads: tuple[int, ...]
    weights: Float[Tensor, "batch head query key"]
    row: int = 0
    column: int = 0


class InnerPart(NamedTuple):
    """A part of a call that belongs to one example: a row of the batch, or some tokens of it."""

    example: int
    row: int
    tokens: range | None = None


@dataclass(frozen=True)
class InnerParts:
    """Which parts of a call belong to which example.

    Needed where the rows of the batch are not the examples, nor as many for each: pictures of which
    one text has three and another one, or a loop that attends to one example at a time.
    """

    examples: int
    parts: tuple[InnerPart, ...]

    def of(self, example: int) -> list[InnerPart]:
        """The parts of one example, in their order."""
        return [part for part in self.parts if part.example == example]


@dataclass(frozen=True, eq=False)
class CallRecord:
    """One attention call at a site, for all examples of the batch.

    Described. A call has either a `scoring`, with query and key, or `weights`; `mask` is that of
    either. Beside weights, `key` may hold the values instead, which serve to recognise rows that
    move between decoding steps. `query_stream` and `key_stream` are None where the data flow did
    not tell. `key_count` is how many keys the call had; a call that continues another keeps only
    the new ones in `key`. `windows` is how many rows of the batch belong to one example, as the
    windows of a picture do; `inner_parts` says the same where it is not as many for each example.
    `model_call` counts the calls of the model; `in_decoder` marks self-attention of a decoder
    that no mask gives away. `real_tokens` tells which keys the caller of the model did not mark as
    padding; None if the caller marked none. `shard` says which processes have further heads of the
    call; None if all are here, and after they were joined.

    Observed. `observed` is what the kernel measured, or will. `heads` are those that the map will
    have, None for all, and `head_indices` the heads of the model that the record has, None if it
    has all. `exact` is False if query and key were rounded. `value`, `gradient_slot`, `projection`
    and `edits` are there if the caller keeps values, gradients and outputs, or edits.

    Stacked. `keys_seen` is how many keys all calls of the run had seen at the end of this one,
    including those that a sliding cache has dropped. `row_matches` tells, where rows of the batch
    moved since the call before, which of its rows each may have been. `steps` is how many decoding
    steps of one query each the record stands for; `replaced` are the numbers of queries of
    earlier calls that it took the place of, because it has all their rows.
    """

    site: str
    query_stream: str | None
    key_stream: str | None
    query: Float[Tensor, "batch head _query _dim"]
    key: Float[Tensor, "batch key_head _key _dim"]
    scoring: Scoring | None = None
    weights: Float[Tensor, "batch head query key"] | None = None
    mask: Mask | None = None
    key_count: int = 0
    windows: int = 1
    inner_parts: InnerParts | None = None
    model_call: int = 0
    in_decoder: bool = False
    real_tokens: Bool[Tensor, "batch key"] | None = None
    shard: HeadShard | None = None
    # observed
    observed: Observation | PendingObservation | None = None
    heads: tuple[int, ...] | None = None
    head_indices: tuple[int, ...] | None = None
    exact: bool = True
    value: Float[Tensor, "batch _key_head _key _value_dim"] | None = None
    gradient_slot: GradientSlot | None = None
    projection: OutputProjection | None = None
    edits: tuple[EditedWeights, ...] = ()
    # stacked
    keys_seen: int = 0
    row_matches: Bool[Tensor, "batch earlier"] | None = None
    steps: int = 1
    replaced: tuple[int, ...] = ()

    def with_fields(self, **fields: Any) -> "CallRecord":
        """The record with other values of these fields: `replace`, at a tenth of its cost.

        Each call makes a record in three stages, and there are 27 fields.
        """
        changed = object.__new__(CallRecord)
        own = vars(changed)
        own.update(vars(self), **fields)
        own.pop("sizes", None)  # they may have changed
        return changed

    @property
    def observation(self) -> Observation | None:
        """What the kernel measured; a pending measurement is made now."""
        observed = self.observed
        return observed.result() if isinstance(observed, PendingObservation) else observed

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, heads, queries, keys."""
        if self.weights is not None:
            batch, heads, queries, keys = self.weights.shape
            return batch, heads, queries, keys
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.key_count

    @property
    def examples(self) -> int:
        """How many examples the call had."""
        return self.inner_parts.examples if self.inner_parts else self.sizes[0] // self.windows

    def parts_of(self, example: int) -> list[InnerPart]:
        """The parts of the call that belong to an example."""
        if self.inner_parts is not None:
            return self.inner_parts.of(example)
        first = example * self.windows
        return [InnerPart(example, row) for row in range(first, first + self.windows)]

    @property
    def has_windows(self) -> bool:
        """True if some example has more than one row of the batch."""
        return self.windows > 1 or any(
            len(self.parts_of(example)) > 1
            for example in range(self.inner_parts.examples if self.inner_parts else 0)
        )

    @property
    def run_key(self) -> RunKey:
        """Site and streams, by which calls are grouped: a module may attend to several streams."""
        return self.site, self.query_stream, self.key_stream

    @property
    def is_self_attention(self) -> bool:
        """True if queries and keys are one stream; where it is not known, as many of each."""
        _, _, queries, keys = self.sizes
        if self.query_stream is None or self.key_stream is None:
            return queries == keys
        return self.query_stream == self.key_stream

    @property
    def is_causal(self) -> bool:
        """True if the mask hides every later key from each query."""
        return self.mask is not None and self.mask.split()[0].right == 0

    @property
    def kind(self) -> MapKind:
        """Cross if the keys are of another stream, decoder if no query sees a later key."""
        if not self.is_self_attention:
            return "cross"
        _, _, queries, keys = self.sizes
        is_decoder = self.in_decoder or self.is_causal or queries < keys
        return "decoder" if is_decoder else "encoder"

    @property
    def output(self) -> Float[Tensor, "head value_dim model"] | None:
        """Each head's part of the output projection, if the contexts went straight into one."""
        return None if self.projection is None else self.projection.head_parts

    @property
    def gradient(self) -> Float[Tensor, "batch head query value_dim"] | None:
        """The gradient of the context, if `backward()` has run."""
        return None if self.gradient_slot is None else self.gradient_slot.gradient
