"""Attention of a recurrent decoder over the source, by any mechanism of the catalog.

`make_source_attention("additive + hard", ...)` builds the module from catalog names. `memory` turns
the encoder's states into a `SourceMemory`, once for each batch; `read` returns the contexts of some
queries from it at each step.
"""

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
from regard.models.recurrent.projected_keys import ProjectedKeysAdditiveScore

Queries = Float[Tensor, "row query hidden"]
Contexts = Float[Tensor, "row query dim"]


class SourceMemory(NamedTuple):
    """The keys and values of the source, one entry for each input.

    In beam search `rows_per_input` neighbouring batch rows, the beams of an input, share its entry
    instead of copying it.
    """

    key: Float[Tensor, "batch *head key key_dim"]
    value: Float[Tensor, "batch *head key dim"]
    real: Bool[Tensor, "batch key"] | None = None
    rows_per_input: int = 1

    def select(self, rows: Int[Tensor, " row"]) -> "SourceMemory":
        """The memory for these batch rows; an input that no row belongs to is dropped.

        Entries are copied only if the inputs no longer have the same number of neighbouring rows.
        """
        inputs = torch.div(rows, self.rows_per_input, rounding_mode="floor")
        kept, counts = torch.unique_consecutive(inputs, return_counts=True)
        rows_per_input = int(counts[0])
        if not bool((counts == rows_per_input).all()):
            kept, rows_per_input = inputs, 1
        if torch.equal(kept, torch.arange(len(self.key), device=kept.device)):
            return self._replace(rows_per_input=rows_per_input)
        return self._take(kept)._replace(rows_per_input=rows_per_input)

    def repeat(self) -> "SourceMemory":
        """The memory with one entry for each batch row, copied where rows shared one."""
        if self.rows_per_input == 1:
            return self
        inputs = torch.arange(len(self.key), device=self.key.device)
        return self._take(inputs.repeat_interleave(self.rows_per_input))._replace(rows_per_input=1)

    @property
    def mask(self) -> Mask | None:
        """The mask that hides padding; None if there is no padding."""
        return None if self.real is None else padding(self.real)

    def _take(self, inputs: Int[Tensor, " row"]) -> "SourceMemory":
        """The entries of these inputs; if keys and values are one tensor, it is copied once."""
        real = None if self.real is None else self.real.index_select(0, inputs)
        key = self.key.index_select(0, inputs)
        same = self.value is self.key
        return SourceMemory(key, key if same else self.value.index_select(0, inputs), real)


class SourceAttention(nn.Module):
    """Attention over the encoder's states by one mechanism; values are the states themselves.

    For additive attention, `memory` projects the keys once for all steps by U.
    """

    def __init__(self, mechanism: Mechanism, query_dim: int, key_dim: int) -> None:
        super().__init__()
        mechanism.score.check(query_dim, key_dim)
        self.mechanism, self.dim = mechanism, key_dim
        self.U: nn.Parameter | None = None
        if isinstance(mechanism.score, AdditiveScore):
            self.U = mechanism.score.U
            mechanism.score = ProjectedKeysAdditiveScore(mechanism.score)

    @property
    def ignores_position(self) -> bool:
        """True if weights do not depend on a query's position; beams can then share an entry."""
        return self.mechanism.bias is None and self.mechanism.mask == everything()

    def memory(
        self, states: Float[Tensor, "batch key key_dim"], real: Bool[Tensor, "batch key"] | None
    ) -> SourceMemory:
        """The keys, projected if the score is additive, and values for all steps."""
        key = states if self.U is None else F.linear(states, self.U)
        return SourceMemory(key, states, real)

    def read(self, query: Queries, memory: SourceMemory, position: int = 0) -> Contexts:
        """The context of each query; the first query of a row has this position in the target."""
        if memory.rows_per_input == 1:
            return self._attend(query, memory, position)
        # While attention is watched, each row gets its own copy of the source, so that the captured
        # maps have the same form as without beams.
        if not self.ignores_position or has_torch_function((query,)):
            return self._attend(query, memory.repeat(), position)
        # The beams of an input become further queries of one row, which all attend to its entry.
        folded = query.reshape(-1, memory.rows_per_input * query.shape[1], query.shape[2])
        context = self._attend(folded, memory, 0)
        return context.view(*query.shape[:2], context.shape[-1])

    def forward(
        self,
        query: Queries,
        memory: SourceMemory,
        position: int = 0,
        mechanism: Mechanism | None = None,
    ) -> Contexts:
        """The context of each query over the entry of the same row, by another mechanism if given.

        A PointerGenerator gives that of the step, which knows the coverage.
        """
        mechanism = self.mechanism if mechanism is None else mechanism
        return attend(query, memory.key, memory.value, mechanism, memory.mask, offset=position)

    def _attend(self, query: Queries, memory: SourceMemory, position: int) -> Contexts:
        """The contexts by a call of the module."""
        # Not self.forward(...): `regard.watch` finds the name of an attention call by its module.
        context: Tensor = self(query, memory, position)
        return context

    def choose(self, query: Queries, memory: SourceMemory, position: int = 0) -> Choice:
        """The key that hard attention chooses, with its context and log-probability."""
        mask, mechanism = memory.mask, self.mechanism
        return choose(query, memory.key, memory.value, mechanism, mask, offset=position)


class MultiHeadSourceAttention(SourceAttention):
    """Source attention by a module of `regard.attention` with projections of its own."""

    def __init__(self, module: SingleHeadAttention | MultiHeadAttention, query_dim: int) -> None:
        nn.Module.__init__(self)
        self.module, self.dim, self.U = module, query_dim, None

    @property
    def ignores_position(self) -> bool:
        """True unless the module has rotary positions."""
        return getattr(self.module, "rotary", None) is None

    def memory(
        self, states: Float[Tensor, "batch key key_dim"], real: Bool[Tensor, "batch key"] | None
    ) -> SourceMemory:
        """The states projected to keys and values."""
        if isinstance(self.module, SingleHeadAttention):
            return SourceMemory(self.module.w_k(states), self.module.w_v(states), real)
        cache = self.module.project(states)
        return SourceMemory(cache.key, cache.value, real)

    def forward(
        self,
        query: Queries,
        memory: SourceMemory,
        position: int = 0,
        mechanism: Mechanism | None = None,
    ) -> Contexts:
        """The context of each query over the entry of the same row; the mechanism is its own."""
        if isinstance(self.module, MultiHeadAttention):
            cache = KeyValueCache(memory.key, memory.value)
            return self.module.read(query, cache, memory.mask, offset=position)
        query, own = self.module.w_q(query), self.module.mechanism
        return attend(query, memory.key, memory.value, own, memory.mask, offset=position)

    def choose(self, query: Queries, memory: SourceMemory, position: int = 0) -> Choice:
        """Raise an InputError: attention with several heads cannot be hard."""
        raise InputError("choosing is for hard attention, such as 'additive + hard'")


def make_source_attention(
    names: str, query_dim: int, key_dim: int, *, heads: int = 1, radius: int = 10
) -> SourceAttention:
    """The attention module for catalog names, several joined by +, as in "additive + hard"."""
    entries = [catalog[name.strip()] for name in names.split("+")]
    families = [entry.family for entry in entries]
    if "copying" in families:
        raise InputError(
            f"{names!r} is of a PointerGenerator, which copies and covers with any score: build "
            "one, with coverage=True, and name attention='additive' or another score"
        )
    if len({*families}) < len(families) or ("heads" in families and len(families) > 1):
        raise InputError(
            f"expected names of different families to join, got {names!r}, which are "
            f"{', '.join(families)}; heads stand alone"
        )
    modules: dict[str, nn.Module] = {
        entry.family: entry.build(query_dim, key_dim=key_dim, heads=heads) for entry in entries
    }
    first = next(iter(modules.values()))
    if len(modules) == 1 and isinstance(first, SingleHeadAttention | MultiHeadAttention):
        return MultiHeadSourceAttention(first, query_dim)
    return SourceAttention(_join_mechanisms(modules, radius), query_dim, key_dim)


def _join_mechanisms(modules: dict[str, nn.Module], radius: int) -> Mechanism:
    """One mechanism with the score, normalizer, mask and bias of mechanisms by family."""
    parts = {family: part for family, part in modules.items() if isinstance(part, Mechanism)}
    if len(parts) < len(modules):
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
    elif "reach" in modules and base.mask.split()[0].left is not None:
        left, right = base.mask.split()[0].left, base.mask.split()[0].right
        base.mask = window(radius if left else left, radius if right else right)
    return base
