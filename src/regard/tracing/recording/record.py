"""What a watcher notes of each call: enough to build maps when the block ends."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.observe import Observation, Scoring
from regard.masks import Mask
from regard.tracing.recording.options import Kept

NOTHING = Kept()


@dataclass(frozen=True, eq=False)
class CallRecord:
    """One call at a site, for all examples of the batch.

    Exactly one of `scoring` (with query, key and what was observed) and `weights` is there; the
    mask is that of either. Beside weights, keys serve to compare rows, and values do as well.
    `span` is how many keys the call had; a call that continues another keeps the new ones only.
    `parts` is how many rows of the batch belong to one example, as the windows of a picture do.
    `end` is how many keys its run had seen in all, those too that a
    sliding cache has forgotten. `matches` tells, where rows of the batch moved since the call
    before, which of its rows each may have been. `kept` is what is wanted beside the weights.
    `queries` and `keys` name the streams; None where the flow did not tell.
    """

    site: str
    queries: str | None
    keys: str | None
    query: Float[Tensor, "batch head _query _dim"]
    key: Float[Tensor, "batch key_head _key _dim"]
    scoring: Scoring | None = None
    observed: Observation | None = None
    weights: Float[Tensor, "batch head query key"] | None = None
    mask: Mask | None = None
    span: int = 0
    parts: int = 1
    kept: Kept = NOTHING
    end: int = 0
    matches: Bool[Tensor, "batch earlier"] | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, heads, queries, keys."""
        if self.weights is not None:
            batch, heads, queries, keys = self.weights.shape
            return batch, heads, queries, keys
        batch, heads, queries, _ = self.query.shape
        return batch, heads, queries, self.span

    @property
    def look(self) -> tuple[str, str | None, str | None]:
        """Where it is, and from which stream at which: a module may look at several in turn."""
        return self.site, self.queries, self.keys

    @property
    def looks_at_itself(self) -> bool:
        """Whether queries and keys are one stream: self-attention."""
        _, _, queries, keys = self.sizes
        if self.queries is None or self.keys is None:
            return queries == keys
        return self.queries == self.keys

    @property
    def is_causal(self) -> bool:
        """Whether no query sees a later key, by its mask or by its weights."""
        return self.mask is not None and self.mask.split()[0].right == 0
