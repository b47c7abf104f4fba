"""torch's fused kernel on blocks of queries, each with only the keys that its window reaches."""

from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention.terms import Terms
from regard.masks import Area

Query = Float[Tensor, "batch head query key_dim"]
Key = Float[Tensor, "batch key_head key key_dim"]
Value = Float[Tensor, "batch key_head key dim"]
Context = Float[Tensor, "batch head query dim"]


@dataclass(frozen=True)
class Kernel:
    """torch's fused attention kernel with the scale and dropout of one call of `attend`."""

    scale: float
    dropout: float = 0.0

    def __call__(
        self,
        query: Query,
        key: Key,
        value: Value,
        mask: Tensor | None = None,
        *,
        is_causal: bool = False,
    ) -> Context:
        """The context of each query; groups of query heads share a key head if there are fewer."""
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=self.dropout,
            is_causal=is_causal,
            scale=self.scale,
            enable_gqa=query.shape[1] != key.shape[1],
        )


def attend_slices(
    query: Query, key: Key, value: Value, terms: Terms, kernel: Kernel, rows: range
) -> list[Tensor]:
    """The contexts of the queries from rows.start to rows.stop, a block of rows.step at a time.

    The dense mask is made for one block at a time, and only for the keys within its reach.
    """
    band, _ = terms.mask.split()
    contexts = []
    for start in rows:
        block = range(start, min(start + rows.step, rows.stop))
        reach = band.reach(terms.area(block, key.shape[2], query.device))
        area = Area(block, reach, terms.offset, query.device)
        part = query[:, :, block.start : block.stop]
        if not reach:  # a query that sees no key has a context of zeros
            contexts.append(part.new_zeros(*part.shape[:3], value.shape[-1]))
            continue
        near = slice(reach.start, reach.stop)
        mask = terms.dense(area, query.dtype)
        contexts.append(kernel(part, key[:, :, near], value[:, :, near], mask))
    return contexts
