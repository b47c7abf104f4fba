"""Token embeddings, and the bidirectional encoder of the source (Bahdanau et al. 2015, 3.2)."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import InputError, ShapeError
from regard.models.recurrent.bidirectional_gru import (
    run_both_directions,
    supports_both_directions,
)


class TokenEmbedding(nn.Module):
    """Looks up the vector of each token in a table that source and target may share.

    Each side has its own module even if the table is shared, so that a trace can tell source tokens
    from target tokens.
    """

    def __init__(self, table: nn.Embedding, dropout: float) -> None:
        super().__init__()
        self.table, self.dropout = table, nn.Dropout(dropout)

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length dim"]:
        """The vector of each token, with dropout."""
        check_ids(ids, self.table.num_embeddings)
        vectors: Tensor = self.dropout(self.table(ids))
        return vectors


def make_embedding_table(vocab: int, dim: int) -> nn.Embedding:
    """A table of random vectors whose expected squared norm is 1."""
    table = nn.Embedding(vocab, dim)
    nn.init.normal_(table.weight, std=1.0 / math.sqrt(dim))
    return table


def check_ids(ids: Tensor, vocab: int) -> None:
    """Raise an error unless the ids are (batch, length), not empty, and all in the vocabulary."""
    if ids.dim() != 2 or 0 in ids.shape:
        raise ShapeError(f"expected ids (batch, length), one at least, got {tuple(ids.shape)}")
    if ids.device.type != "cpu" or torch.compiler.is_compiling():
        return  # reading values would wait for the device, or break the compiled graph
    low, high = (int(bound) for bound in ids.aminmax())
    if low < 0 or high >= vocab:
        raise InputError(
            f"no token has id {low if low < 0 else high}: this vocabulary has ids 0 to {vocab - 1}"
        )


class Encoded(NamedTuple):
    """The encoder's states, one for each source token, and one vector (`final`) for each source.

    `real` is True for tokens that are not padding; None if there is no padding.
    """

    states: Float[Tensor, "batch key key_dim"]
    final: Float[Tensor, "batch key_dim"]
    real: Bool[Tensor, "batch key"] | None


class Encoder(nn.Module):
    """A bidirectional GRU or LSTM; the state of a token is [forward; backward] (eq. 7)."""

    def __init__(self, cell: str, dim: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        kind = nn.GRU if cell == "gru" else nn.LSTM
        dropout = dropout if layers > 1 else 0.0
        self.rnn = kind(dim, hidden, layers, batch_first=True, bidirectional=True, dropout=dropout)

    def forward(
        self,
        embedded: Float[Tensor, "batch key dim"],
        real: Bool[Tensor, "batch key"] | None = None,
    ) -> Encoded:
        """The states of all tokens; those of padding are zeros and change no other state."""
        if supports_both_directions(self.rnn, embedded) and _pads_right(real):
            seen = embedded.new_ones(embedded.shape[:2], dtype=torch.bool) if real is None else real
            assert isinstance(self.rnn, nn.GRU)
            return Encoded(*run_both_directions(self.rnn, embedded, seen), real)
        if real is None:
            states, last = self.rnn(embedded)
            return Encoded(states, _final_states(last), None)
        # Move the padding to the right, run both directions, and move the states back.
        order = (~real).to(torch.uint8).argsort(dim=1, stable=True)
        embedded = embedded.gather(1, order[:, :, None].expand_as(embedded))
        lengths = real.sum(dim=1)
        forward, backward = self._run(embedded, lengths)
        last = (lengths - 1).clamp_min(0)[:, None, None].expand(-1, 1, forward.shape[-1])
        final = torch.cat([forward.gather(1, last)[:, 0], backward[:, 0]], dim=-1)
        states = torch.cat([forward, backward], dim=-1)
        back = order.argsort(dim=1)[:, :, None].expand_as(states)
        return Encoded(states.gather(1, back) * real[..., None], final, real)

    def _run(
        self, inputs: Float[Tensor, "batch key dim"], lengths: Int[Tensor, " batch"]
    ) -> tuple[Tensor, Tensor]:
        """The states of both directions in the top layer, for rows with padding on the right.

        Each direction runs over whole rows, the backward one over rows whose real tokens were
        reversed, so that padding comes last in both. A packed sequence would do the same, but its
        backward pass on a CPU takes time that grows with the square of the length.
        """
        run = torch.gru if self.rnn.mode == "GRU" else torch.lstm
        place = torch.arange(inputs.shape[1], device=inputs.device)
        reverse = torch.where(place < lengths[:, None], lengths[:, None] - 1 - place, place)
        directions: list[Tensor] = []
        for weights in zip(*[iter(self.rnn.all_weights)] * 2, strict=True):
            if directions:
                inputs = F.dropout(torch.cat(directions, dim=-1), self.rnn.dropout, self.training)
            directions = []
            for number, own in enumerate(weights):
                index = reverse[:, :, None]
                rows = inputs.gather(1, index.expand_as(inputs)) if number else inputs
                zero = rows.new_zeros(1, len(rows), self.rnn.hidden_size)
                first = zero if run is torch.gru else (zero, zero)
                states = run(rows, first, own, True, 1, 0.0, self.training, False, True)[0]  # type: ignore[arg-type]
                directions.append(states.gather(1, index.expand_as(states)) if number else states)
        forward, backward = directions
        return forward, backward


def _pads_right(real: Bool[Tensor, "batch key"] | None) -> bool:
    """True if no padding stands before a real token."""
    return real is None or not bool((real[:, 1:] & ~real[:, :-1]).any())


def _final_states(last: Tensor | tuple[Tensor, Tensor]) -> Float[Tensor, "batch key_dim"]:
    """The last states of the top layer, forward and backward side by side."""
    states = last if isinstance(last, Tensor) else last[0]
    return torch.cat([states[-2], states[-1]], dim=-1)
