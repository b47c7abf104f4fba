"""How the decoder looks at the source: any mechanism of the catalog, or several joined."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.overrides import has_torch_function

from regard.attention import (
    AdditiveScore,
    Choice,
    Hard,
    KeyValueCache,
    Mechanism,
    MultiHeadAttention,
    PredictiveLocal,
    SingleHeadAttention,
    attend,
    catalog,
    choose,
)
from regard.errors import InputError
from regard.masks import Mask, everything, padding, window
from regard.models.recurrent.projected_keys import KeyedAdditiveScore

Queries = Float[Tensor, "row query hidden"]
Contexts = Float[Tensor, "row query dim"]


class Memory(NamedTuple):
    """What was read, one entry for each sentence: keys and values ready to be attended to.

    `rows` neighbouring rows write from each sentence.
    """

    key: Float[Tensor, "batch *head key key_dim"]
    value: Float[Tensor, "batch *head key dim"]
    real: Bool[Tensor, "batch key"] | None = None
    rows: int = 1

    def select(self, rows: Int[Tensor, " row"]) -> "Memory":
        """The sentences of these rows; one that no row writes from is dropped.

        While all have as many neighbouring rows, no sentence is repeated.
        """
        owners = torch.div(rows, self.rows, rounding_mode="floor")
        kept, counts = torch.unique_consecutive(owners, return_counts=True)
        each = int(counts[0])
        if not bool((counts == each).all()):
            kept, each = owners, 1
        if torch.equal(kept, torch.arange(len(self.key), device=kept.device)):
            return self._replace(rows=each)
        return self._indexed(kept)._replace(rows=each)

    def repeated(self) -> "Memory":
        """A copy of its sentence for each row."""
        if self.rows == 1:
            return self
        owners = torch.arange(len(self.key), device=self.key.device)
        return self._indexed(owners.repeat_interleave(self.rows))._replace(rows=1)

    @property
    def mask(self) -> Mask | None:
        """Which keys are real."""
        return None if self.real is None else padding(self.real)

    def _indexed(self, sentences: Int[Tensor, " row"]) -> "Memory":
        real = None if self.real is None else self.real.index_select(0, sentences)
        key = self.key.index_select(0, sentences)
        same = self.value is self.key
        return Memory(key, key if same else self.value.index_select(0, sentences), real)


class Reader(nn.Module):
    """Attention over the encoder's states, with what can be computed once computed once."""

    def __init__(self, mechanism: Mechanism, query_dim: int, key_dim: int) -> None:
        super().__init__()
        mechanism.score.check(query_dim, key_dim)
        self.mechanism, self.dim = mechanism, key_dim
        self.U: nn.Parameter | None = None
        if isinstance(mechanism.score, AdditiveScore):
            self.U = mechanism.score.U
            mechanism.score = KeyedAdditiveScore(mechanism.score)

    @property
    def folds(self) -> bool:
        """Whether several rows may be queries of one sentence: a query's place does not count."""
        return self.mechanism.bias is None and self.mechanism.mask == everything()

    def memory(
        self, states: Float[Tensor, "batch key key_dim"], real: Bool[Tensor, "batch key"] | None
    ) -> Memory:
        """The states as keys and values."""
        key = states if self.U is None else F.linear(states, self.U)
        return Memory(key, states, real)

    def read(self, query: Queries, memory: Memory, place: int = 0) -> Contexts:
        """The context of each query, the first of a row standing at position `place`."""
        if memory.rows == 1:
            return self._seen(query, memory, place)
        # a watcher sees each row with the sentence that it reads, as without beams
        if not self.folds or has_torch_function((query,)):
            return self._seen(query, memory.repeated(), place)
        folded = query.reshape(-1, memory.rows * query.shape[1], query.shape[2])
        context = self._seen(folded, memory, 0)
        return context.view(*query.shape[:2], context.shape[-1])

    def forward(self, query: Queries, memory: Memory, place: int = 0) -> Contexts:
        """The context of each query over the sentence of the same row."""
        mask, mechanism = memory.mask, self.mechanism
        return attend(query, memory.key, memory.value, mechanism, mask, offset=place)

    def _seen(self, query: Queries, memory: Memory, place: int) -> Contexts:
        context: Tensor = self(query, memory, place)  # as a module's call, so that it has a site
        return context

    def choose(self, query: Queries, memory: Memory, place: int = 0) -> Choice:
        """The choice of hard attention, with its log-probability."""
        mask, mechanism = memory.mask, self.mechanism
        return choose(query, memory.key, memory.value, mechanism, mask, offset=place)


class HeadReader(Reader):
    """Attention whose module has projections of its own: one head, several, or groups of them."""

    def __init__(self, module: SingleHeadAttention | MultiHeadAttention, query_dim: int) -> None:
        nn.Module.__init__(self)
        self.module, self.dim, self.U = module, query_dim, None

    @property
    def folds(self) -> bool:
        """Whether a query's place does not count."""
        return getattr(self.module, "rotary", None) is None

    def memory(
        self, states: Float[Tensor, "batch key key_dim"], real: Bool[Tensor, "batch key"] | None
    ) -> Memory:
        """The states projected to keys and values."""
        if isinstance(self.module, SingleHeadAttention):
            return Memory(self.module.w_k(states), self.module.w_v(states), real)
        cache = self.module.project(states)
        return Memory(cache.key, cache.value, real)

    def forward(self, query: Queries, memory: Memory, place: int = 0) -> Contexts:
        """The context of each query over the sentence of the same row."""
        if isinstance(self.module, MultiHeadAttention):
            cache = KeyValueCache(memory.key, memory.value)
            return self.module.read(query, cache, memory.mask, offset=place)
        query, mechanism = self.module.w_q(query), self.module.mechanism
        return attend(query, memory.key, memory.value, mechanism, memory.mask, offset=place)

    def choose(self, query: Queries, memory: Memory, place: int = 0) -> Choice:
        """Refused: these heads are soft."""
        raise InputError("choosing is for hard attention, such as 'additive + hard'")


def reader(names: str, query_dim: int, key_dim: int, *, heads: int = 1, radius: int = 10) -> Reader:
    """The attention that the names of the catalog, joined by +, make together."""
    entries = [catalog[name.strip()] for name in names.split("+")]
    families = [entry.family for entry in entries]
    if len({*families}) < len(families) or ("heads" in families and len(families) > 1):
        raise InputError(
            f"expected names of different families to join, got {names!r}, which are "
            f"{', '.join(families)}; heads stand alone"
        )
    built: dict[str, nn.Module] = {
        entry.family: entry.build(query_dim, key_dim=key_dim, heads=heads) for entry in entries
    }
    alone = next(iter(built.values()))
    if len(built) == 1 and isinstance(alone, SingleHeadAttention | MultiHeadAttention):
        return HeadReader(alone, query_dim)
    return Reader(_joined(built, radius), query_dim, key_dim)


def _joined(built: dict[str, nn.Module], radius: int) -> Mechanism:
    """One mechanism with the score, normalizer, reach and bias of several."""
    parts = {name: part for name, part in built.items() if isinstance(part, Mechanism)}
    if len(parts) < len(built):
        raise InputError("attention with projections of its own stands alone")
    base = parts.get("reach") or next(iter(parts.values()))
    for family, part in parts.items():
        if family in ("score", "normalizer"):
            setattr(base, family, getattr(part, family))
        elif family == "position":
            base.bias = part.bias
    if isinstance(base, PredictiveLocal):
        base.radius = radius
        if isinstance(base.normalizer, Hard):
            raise InputError("local-p weighs keys by a Gaussian and cannot be joined with hard")
    elif "reach" in built and base.mask.split()[0].left is not None:
        left, right = base.mask.split()[0].left, base.mask.split()[0].right
        base.mask = window(radius if left else left, radius if right else right)
    return base
