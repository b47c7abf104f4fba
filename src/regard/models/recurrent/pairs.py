"""Vectors for pairs of neighbouring tokens, beside those of the tokens themselves.

Chinese is read character by character, and most of its words have two characters. A table of the
most frequent pairs gives a model these words without a word segmenter, which would make mistakes:

    tokens          不      好      吃     </s>
    pairs           (none)  不好    好吃   (none)       a pair stands where its second token stands

Pairs that are not in the table have a vector of zeros.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.models.recurrent.encoder import TokenEmbedding, check_ids, make_embedding_table

__all__ = ["PairEmbedding", "PairedEmbedding", "count_pairs", "drop_columns"]

_INITIAL = 0.01  # standard deviation of a vector at first: a pair that is no word says little
_NO_PAIR = torch.iinfo(torch.int64).max

Pair = tuple[int, int]


class PairEmbedding(nn.Module):
    """Looks up the vector of each token and the token before it, by a sorted table of known pairs.

    >>> import torch
    >>> from regard.models.recurrent.pairs import PairEmbedding
    >>> embedding = PairEmbedding(vocab=31, pairs=2, dim=3)
    >>> embedding.set_pairs([(7, 8), (5, 7)])
    >>> embedding.rows(torch.tensor([[5, 7, 8, 9]]))
    tensor([[0, 1, 2, 0]])
    """

    keys: Tensor

    def __init__(self, vocab: int, pairs: int, dim: int) -> None:
        super().__init__()
        self.vocab = vocab
        # the key of a pair is left * vocab + right; places that are not used yet match no pair
        self.register_buffer("keys", torch.full((pairs,), _NO_PAIR))
        self.table = nn.Embedding(pairs + 1, dim, padding_idx=0)
        nn.init.normal_(self.table.weight, std=_INITIAL)
        with torch.no_grad():
            self.table.weight[0] = 0.0

    def set_pairs(self, pairs: Sequence[Pair]) -> None:
        """Make these the known pairs, at most as many as the table has rows for."""
        keys = sorted(left * self.vocab + right for left, right in pairs)[: len(self.keys)]
        self.keys.fill_(_NO_PAIR)
        self.keys[: len(keys)] = torch.tensor(keys, dtype=torch.int64)

    def known_pairs(self) -> list[Pair]:
        """The known pairs in the order of their rows, which begin with row 1."""
        keys = self.keys[self.keys != _NO_PAIR].tolist()
        return [divmod(key, self.vocab) for key in keys]

    def rows(self, ids: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
        """The row of each token's pair; 0 where there is none."""
        keys = ids[:, :-1] * self.vocab + ids[:, 1:]
        place = torch.searchsorted(self.keys, keys.contiguous()).clamp_max(len(self.keys) - 1)
        rows = (place + 1).masked_fill(self.keys[place] != keys, 0)
        return F.pad(rows, (1, 0))

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length dim"]:
        """The vector of each token's pair."""
        vectors: Tensor = self.table(self.rows(ids))
        return vectors


class PairedEmbedding(TokenEmbedding):
    """The vector of each token, beside it that of its pair if there are `pairs`, with dropout.

    In training `token_dropout` sets all numbers of some tokens to zero (Iyyer et al. 2015, 2.2), so
    that a model cannot rely on one word alone; `dropout` is that of `drop_columns`.
    """

    def __init__(
        self, vocab: int, dim: int, pairs: int, *, dropout: float, token_dropout: float = 0.0
    ) -> None:
        super().__init__(make_embedding_table(vocab, dim), dropout)
        self.pairs = PairEmbedding(vocab, pairs, dim) if pairs else None
        self.dim = 2 * dim if pairs else dim
        self.token_dropout = token_dropout

    def forward(self, ids: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length dim"]:
        """The vectors of tokens and pairs side by side, with dropout in training."""
        check_ids(ids, self.table.num_embeddings)
        vectors: Tensor = self.table(ids)
        if self.pairs is not None:
            vectors = torch.cat([vectors, self.pairs(ids)], dim=-1)
        if self.training and self.token_dropout:
            vectors = vectors * (torch.rand_like(vectors[..., :1]) >= self.token_dropout)
        return drop_columns(vectors, self.dropout)


def drop_columns(
    vectors: Float[Tensor, "batch length dim"], dropout: nn.Dropout
) -> Float[Tensor, "batch length dim"]:
    """The vectors with dropout of the same numbers for all tokens of a text.

    This is the dropout for recurrent networks of Gal and Ghahramani 2016 (section 4), and takes far
    fewer random numbers than one that drops them token by token.
    """
    if not dropout.training or not dropout.p:
        return vectors
    kept: Tensor = dropout(vectors.new_ones(len(vectors), 1, vectors.shape[-1]))
    return vectors * kept


def count_pairs(rows: Iterable[Sequence[int]]) -> Counter[Pair]:
    """How often each pair of neighbouring tokens occurs in rows of ids.

    >>> from regard.models.recurrent.pairs import count_pairs
    >>> count_pairs([[5, 7, 5, 7], [7, 9]])[5, 7]
    2
    """
    counts: Counter[Pair] = Counter()
    for row in rows:
        counts.update(pairwise(row))
    return counts
