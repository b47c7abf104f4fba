"""The bidirectional encoder: a state for each token of the source (Bahdanau et al. 2015, 3.2)."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoded(NamedTuple):
    """The states of a batch, each the annotation of its token, and how each text ended."""

    states: Float[Tensor, "batch key key_dim"]
    final: Float[Tensor, "batch key_dim"]
    real: Bool[Tensor, "batch key"] | None


class Encoder(nn.Module):
    """Reads a text in both directions; a token's state is [forward; backward] (eq. 7)."""

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
        """The states; those of padding are zeros, and no text sees the padding of its own."""
        if real is None:
            states, last = self.rnn(embedded)
            return Encoded(states, _ends(last), None)
        # packing wants the padding behind each text
        order = (~real).to(torch.uint8).argsort(dim=1, stable=True)
        embedded = embedded.gather(1, order[:, :, None].expand_as(embedded))
        sizes = real.sum(dim=1).to("cpu")  # where torch expects them
        packed = pack_padded_sequence(embedded, sizes, batch_first=True, enforce_sorted=False)
        states, last = self.rnn(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=real.shape[1])
        back = order.argsort(dim=1)[:, :, None].expand_as(states)
        return Encoded(states.gather(1, back), _ends(last), real)


def _ends(last: Tensor | tuple[Tensor, Tensor]) -> Float[Tensor, "batch key_dim"]:
    """The last states of both directions of the top layer."""
    states = last if isinstance(last, Tensor) else last[0]
    return torch.cat([states[-2], states[-1]], dim=-1)
