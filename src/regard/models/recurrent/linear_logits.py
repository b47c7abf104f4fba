"""LinearLogits: a linear classifier over tokens and pairs of tokens, as a part of a model.

On a few thousand texts such a classifier is as good as a recurrent network, and is wrong about
other texts: the sum of both is better than either (Wang and Manning 2012; Cheng et al. 2016).
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

__all__ = ["LinearLogits"]


class LinearLogits(nn.Module):
    """The sum of a number for each token and pair, over the root of their count, and a bias.

    It is fitted by itself (`regard.training.linear_fit`), not by gradient steps: its parameters
    have no gradient.

    >>> import torch
    >>> from regard.models.recurrent.linear_logits import LinearLogits
    >>> linear = LinearLogits(vocab=31, pairs=5, labels=3)
    >>> linear(torch.tensor([[7, 8]]), torch.tensor([[0, 4]]), None).tolist()
    [[0.0, 0.0, 0.0]]
    """

    def __init__(self, vocab: int, pairs: int, labels: int) -> None:
        super().__init__()
        self.tokens, self.pairs = nn.Embedding(vocab, labels), nn.Embedding(pairs + 1, labels)
        self.bias = nn.Parameter(torch.zeros(labels))
        for table in (self.tokens, self.pairs):
            nn.init.zeros_(table.weight)
        self.requires_grad_(False)

    def forward(
        self,
        ids: Int[Tensor, "batch length"],
        rows: Int[Tensor, "batch length"] | None,
        real: Bool[Tensor, "batch length"] | None,
    ) -> Float[Tensor, "batch label"]:
        """The logits of texts; `rows` are those of a PairEmbedding, row 0 is for no pair."""
        values = self.tokens(ids)
        if rows is not None:
            values = values + self.pairs(rows) * (rows > 0)[..., None]
        real = torch.ones_like(ids, dtype=torch.bool) if real is None else real
        count = real.sum(1, keepdim=True).clamp_min(1).to(values.dtype)
        logits: Tensor = (values * real[..., None]).sum(1) / count.sqrt() + self.bias
        return logits
