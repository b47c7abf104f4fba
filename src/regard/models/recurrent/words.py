"""The vectors of words, looked up in a table that two sides may share."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import InputError, ShapeError


class Words(nn.Module):
    """A row of the table for each id; a module of each side's own, so that their streams differ."""

    def __init__(self, table: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.table, self.dropout = table, nn.Dropout(dropout)

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length dim"]:
        """The vectors of the ids."""
        check_ids(ids, self.table.num_embeddings)
        found: Tensor = self.dropout(self.table(ids))
        return found


def new_table(vocab: int, dim: int) -> nn.Embedding:
    """A table of random vectors of about unit length."""
    table = nn.Embedding(vocab, dim)
    nn.init.normal_(table.weight, std=1.0 / math.sqrt(dim))
    return table


def check_ids(ids: Tensor, vocab: int) -> None:
    """Raise an InputError unless there are ids and all are of the vocabulary."""
    if ids.dim() != 2 or 0 in ids.shape:
        raise ShapeError(f"expected ids (batch, length), one at least, got {tuple(ids.shape)}")
    if ids.device.type != "cpu" or torch.compiler.is_compiling():
        return  # elsewhere it would make the device wait
    low, high = (int(each) for each in ids.aminmax())
    if low < 0 or high >= vocab:
        raise InputError(
            f"no token has id {low if low < 0 else high}: this vocabulary has ids 0 to {vocab - 1}"
        )
