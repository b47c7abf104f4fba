"""torch's fused kernel on blocks of queries, each with the run of keys that its window reaches."""

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
    """torch's kernel, with what stays the same over a call."""

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
        """The context; heads of keys that are fewer than those of queries are shared by groups."""
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


def slices(
    query: Query, key: Key, value: Value, terms: Terms, kernel: Kernel, rows: range
) -> list[Tensor]:
    """The contexts of blocks of queries: from rows.start to rows.stop, rows.step at a time.

    A mask is made dense for one block only.
    """
    band, _ = terms.mask.split()
    contexts = []
    for start in rows:
        block = range(start, min(start + rows.step, rows.stop))
        reach = band.reach(terms.area(block, key.shape[2], query.device))
        area = Area(block, reach, terms.offset, query.device)
        part = query[:, :, block.start : block.stop]
        if not reach:
            contexts.append(part.new_zeros(*part.shape[:3], value.shape[-1]))
            continue
        near = slice(reach.start, reach.stop)
        mask = terms.dense(area, query.dtype)
        contexts.append(kernel(part, key[:, :, near], value[:, :, near], mask))
    return contexts
