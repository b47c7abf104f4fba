"""LinearLogits: a linear classifier over tokens and pairs of tokens, as a part of a model.

On a few thousand texts such a classifier is as good as a recurrent network, and is wrong about
other texts: the sum of both is better than either (Wang and Manning 2012; Cheng et al. 2016).

Its pairs are those of a PairEmbedding, which have a vector in the network too, or a larger table of
its own: a pair costs 6 bytes there with two labels, and the rare ones count together.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.errors import InputError

__all__ = ["LinearLogits"]

_BLOCK = 64  # pairs in a row of the stored matrix, which has one scale for each row in 8 bits
_MOST_TOKENS = 46340  # the key of a pair, left * vocab + right, is below 2^31
_NO_PAIR = torch.iinfo(torch.int32).max


class LinearLogits(nn.Module):
    """The sum of a number for each token and pair, over the root of their count, and a bias.

    It is fitted by itself (`regard.training.linear_fit`), not by gradient steps: its parameters
    have no gradient. With `own_pairs` it has a table of its own pairs, else it has the `pairs` of a
    PairEmbedding.

    >>> import torch
    >>> from regard.models.recurrent.linear_logits import LinearLogits
    >>> linear = LinearLogits(vocab=31, pairs=5, labels=3)
    >>> linear(torch.tensor([[7, 8]]), torch.tensor([[0, 4]]), None).tolist()
    [[0.0, 0.0, 0.0]]
    """

    keys: Tensor

    def __init__(self, vocab: int, pairs: int, labels: int, own_pairs: int = 0) -> None:
        super().__init__()
        if own_pairs and vocab > _MOST_TOKENS:
            raise InputError(
                f"a linear part with pairs of its own expected at most {_MOST_TOKENS} tokens, got "
                f"{vocab}; make the vocabulary smaller, or leave out linear_pairs"
            )
        self.vocab, self.own_pairs = vocab, own_pairs
        pairs = 0 if own_pairs else pairs
        self.tokens, self.pairs = nn.Embedding(vocab, labels), nn.Embedding(pairs + 1, labels)
        self.bias = nn.Parameter(torch.zeros(labels))
        for table in (self.tokens, self.pairs):
            nn.init.zeros_(table.weight)
        if own_pairs:
            self.register_buffer("keys", torch.full((own_pairs,), _NO_PAIR, dtype=torch.int32))
            blocks = own_pairs // _BLOCK + 1  # row 0 of the numbers is for no pair
            self.own = nn.Parameter(torch.zeros(blocks, _BLOCK * labels))
        self.requires_grad_(False)

    def set_pairs(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Make these the pairs of its own, at most as many as the table has rows for."""
        keys = sorted(left * self.vocab + right for left, right in pairs[: self.own_pairs])
        self.keys.fill_(_NO_PAIR)
        self.keys[: len(keys)] = torch.tensor(keys, dtype=torch.int32)

    def known_pairs(self) -> list[tuple[int, int]]:
        """The pairs of its own in the order of their rows, which begin with row 1."""
        return [divmod(key, self.vocab) for key in self.keys[self.keys != _NO_PAIR].tolist()]

    def forward(
        self,
        ids: Int[Tensor, "batch length"],
        rows: Int[Tensor, "batch length"] | None,
        real: Bool[Tensor, "batch length"] | None,
    ) -> Float[Tensor, "batch label"]:
        """The logits of texts; `rows` are those of a PairEmbedding, row 0 is for no pair."""
        values, numbers = self.tokens(ids), self.pairs.weight
        if self.own_pairs:
            rows, numbers = self._own_rows(ids), self.own.view(-1, len(self.bias))
        if rows is not None:
            values = values + F.embedding(rows, numbers) * (rows > 0)[..., None]
        real = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        count = real.sum(1, keepdim=True).clamp_min(1).to(values.dtype)
        logits: Tensor = (values * real[..., None]).sum(1) / count.sqrt() + self.bias
        return logits

    def _own_rows(self, ids: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
        """The row of the pair that ends at each token; 0 where there is none."""
        keys = (ids[:, :-1] * self.vocab + ids[:, 1:]).to(torch.int32)
        place = torch.searchsorted(self.keys, keys).clamp_max(self.own_pairs - 1)
        return F.pad((place + 1).masked_fill(self.keys[place] != keys, 0), (1, 0))
