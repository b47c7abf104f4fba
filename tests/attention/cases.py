"""Every entry of the catalog, built small and asked in one way."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import reference
import regard
from regard.attention import (
    CoAttention,
    Mechanism,
    MultiHeadAttention,
    SingleHeadAttention,
    catalog,
)
from regard.attention.entry import Entry
from regard.masks import Mask, window

BATCH, QUERIES, KEYS, DIM, KEY_DIM, VALUE_DIM, HEADS = 2, 5, 7, 11, 13, 17, 3
HEAD_DIM, MANY = 2, 6  # of the modules with projections: grouped heads need a number with factors
NARROW = {"local-m": window(2, 1), "sliding-window": window(2, 0)}
WIDTHS_DIFFER = {"general", "additive", "global", "local-p", "single-head", "copy", "coverage"}


@dataclass(frozen=True)
class Inputs:
    query: Tensor
    key: Tensor
    value: Tensor

    def __iter__(self):
        return iter((self.query, self.key, self.value))


class Case:
    """One mechanism and how to ask it."""

    def __init__(self, name: str) -> None:
        self.entry: Entry = catalog[name]
        self.projected = self.entry.family == "heads" or name == "rotary"
        self.key_dim = KEY_DIM if name in WIDTHS_DIFFER else DIM
        if self.projected and name != "single-head":
            self.dim = self.key_dim = HEAD_DIM * MANY
            self.heads = MANY
        else:
            self.dim, self.heads = DIM, HEADS
        module = self.entry.build(self.dim, key_dim=self.key_dim, heads=self.heads)
        if name in NARROW:
            module.mask = NARROW[name]
        if name == "local-p":
            module.radius = 2
        self.module: nn.Module = module.double().eval()

    def inputs(self, batch: int = BATCH, queries: int = QUERIES, keys: int = KEYS) -> Inputs:
        lead = (batch,) if self.projected else (batch, self.heads)
        width = self.key_dim if self.projected else VALUE_DIM
        sizes = ((*lead, queries, self.dim), (*lead, keys, self.key_dim), (*lead, keys, width))
        return Inputs(*(torch.randn(size, dtype=torch.float64) for size in sizes))

    def context(self, inputs: Inputs, mask: Mask | None = None) -> Tensor:
        return self.module(inputs.query, inputs.key, inputs.value, mask)

    def weights(self, inputs: Inputs, mask: Mask | None = None) -> Tensor:
        if isinstance(self.module, Mechanism):
            return regard.weights(inputs.query, inputs.key, self.module, mask)
        return self.module.weights(inputs.query, inputs.key, mask)

    def reference(self, inputs: Inputs, mask: Mask | None = None) -> Tensor:
        """The context by plain loops."""
        module = self.module
        if isinstance(module, Mechanism):
            return reference.context(module, *inputs, mask)
        if isinstance(module, SingleHeadAttention):
            sides = (module.w_q(inputs.query), module.w_k(inputs.key), module.w_v(inputs.value))
            sides = (side.double()[:, None] for side in sides)
            return reference.context(module.mechanism, *sides, mask)[:, 0]
        if isinstance(module, CoAttention):
            return reference.coattention(module, *inputs, mask)
        assert isinstance(module, MultiHeadAttention)
        memory = module.project(inputs.key, inputs.value)
        queries = module._project_queries(inputs.query, 0)
        seen = reference.context(module.mechanism, queries, memory.key, memory.value, mask)
        joined = torch.cat([seen[:, head] for head in range(module.heads)], dim=-1)
        return nn.functional.linear(joined, module.w_o.weight.double(), module.w_o.bias.double())


def obeying(law: str) -> list[str]:
    return [name for name, entry in catalog.items() if law not in entry.breaks]


def breaking(law: str) -> list[str]:
    return [name for name, entry in catalog.items() if law in entry.breaks]
