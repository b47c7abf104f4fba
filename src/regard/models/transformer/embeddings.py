"""Embeddings: tokens or image patches as vectors, with their positions added."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import LearnedPositions, PositionalEncoding
from regard.errors import InputError, ShapeError
from regard.models.transformer.config import TransformerConfig

Ids = Int[Tensor, "batch length"]
Vectors = Float[Tensor, "batch length hidden"]


class Positions(nn.Module):
    """Adds a vector for each position: sinusoids (Vaswani et al. 2017, 3.5) or learned ones.

    Unlike the modules of `regard.attention`, whose tables it uses, it can take the position of each
    token from a tensor, which batches with padding need.
    """

    table: Tensor

    def __init__(self, config: TransformerConfig, length: int) -> None:
        super().__init__()
        if config.positions == "learned":
            self.table = LearnedPositions(config.d_model, length).table
            return
        table = PositionalEncoding(config.d_model, 0.0, length).table
        if config.positions == "sinusoidal-halves":
            table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
        self.register_buffer("table", table, persistent=False)

    def forward(self, x: Vectors, offset: int = 0, positions: Ids | None = None) -> Vectors:
        """The vectors with their positions added: `positions`, or offset, offset + 1, ..."""
        stop = self.check(x.shape[1], offset, positions)
        rows = self.table[offset:stop] if positions is None else self.table[positions]
        return x + rows.to(x.dtype)

    def check(self, length: int, offset: int, positions: Ids | None) -> int:
        """The position after the last of some tokens; an InputError if the table is shorter."""
        stop = offset + length
        if positions is not None and not torch.compiler.is_compiling():
            stop = 1 + int(positions.max())
        if stop > len(self.table):
            raise InputError(
                f"this model knows {len(self.table)} positions, got {stop} tokens; shorten the "
                "text, or build the model with more max_positions"
            )
        return stop


class TokenEmbeddings(nn.Module):
    """The sum of a token's vector, its position's and its type's (Devlin et al. 2019, 3)."""

    def __init__(self, config: TransformerConfig, vocab: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, config.d_model)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        added = config.positions not in ("rotary", "none")
        self.positions = Positions(config, config.max_positions) if added else None
        self.types = nn.Embedding(config.types, config.d_model) if config.types else None
        self.norm = make_norm(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, ids: Ids, types: Ids | None = None, *, offset: int = 0, positions: Ids | None = None
    ) -> Vectors:
        """The vectors of tokens at `positions`, or at offset, offset + 1, ... without them."""
        if self.positions is not None and ids.dim() == 2 and ids.numel():
            # A text that is far too long is refused before its vectors fill the memory.
            self.positions.check(ids.shape[1], offset, positions)
        x = self._look_up(ids)
        if self.scale != 1.0:
            x = x * self.scale
        if self.types is not None:
            kinds = torch.zeros_like(ids) if types is None else types
            x = x + self.types(kinds)
        elif types is not None:
            raise InputError("this model has no token types; leave token_type_ids out")
        if self.positions is not None:
            x = self.positions(x, offset, positions)
        if self.norm is not None:
            x = self.norm(x)
        dropped: Tensor = self.dropout(x)
        return dropped

    def _look_up(self, ids: Ids) -> Vectors:
        """The embedding of each token; an InputError for ids outside of the vocabulary."""
        _check_ids(ids)
        try:
            vectors: Tensor = self.tokens(ids)
        except IndexError:
            vocab = self.tokens.num_embeddings
            wrong = ids[(ids < 0) | (ids >= vocab)][0].item()
            raise InputError(
                f"this model has a vocabulary of {vocab} tokens, 0 to {vocab - 1}, got the id "
                f"{wrong}; is the tokenizer another model's?"
            ) from None
        return vectors


class PatchEmbeddings(nn.Module):
    """The vectors of a class token and of each image patch (Dosovitskiy et al. 2021, 3.1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.size, self.channels = config.image_size, config.channels
        self.patches = nn.Conv2d(config.channels, config.d_model, config.patch, config.patch)
        self.first = nn.Parameter(torch.zeros(config.d_model))
        count = (config.image_size // config.patch) ** 2
        added = config.positions not in ("rotary", "none")
        self.positions = Positions(config, count + 1) if added else None
        self.norm = make_norm(config) if config.embedding_norm else None
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, pixels: Float[Tensor, "batch channel height width"]) -> Vectors:
        """The vectors of the class token and of the patches, row by row."""
        expected = (self.channels, self.size, self.size)
        if pixels.dim() != 4 or tuple(pixels.shape[1:]) != expected:
            raise ShapeError(
                f"this model expected pictures (batch, {', '.join(map(str, expected))}), "
                f"got {tuple(pixels.shape)}"
            )
        x = self.patches(pixels.to(self.first.dtype)).flatten(2).mT
        x = torch.cat([self.first.expand(len(x), 1, -1), x], dim=1)
        if self.positions is not None:
            x = self.positions(x)
        if self.norm is not None:
            x = self.norm(x)
        dropped: Tensor = self.dropout(x)
        return dropped


def make_norm(config: TransformerConfig) -> nn.Module:
    """LayerNorm (Ba et al. 2016) or RMSNorm (Zhang & Sennrich 2019), as the configuration says."""
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=config.norm_eps)
    return nn.LayerNorm(config.d_model, eps=config.norm_eps)


def _check_ids(ids: Tensor) -> None:
    """Raise an error unless these are whole numbers (batch, length), one token at least."""
    if ids.dim() != 2:
        raise ShapeError(
            f"expected token ids (batch, length), got the shape {tuple(ids.shape)}; one text alone "
            "is ids[None]"
        )
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise InputError(f"expected token ids as whole numbers, got {ids.dtype}")
    if not ids.numel():
        raise InputError(
            f"expected at least one token, got ids of shape {tuple(ids.shape)}; is the text empty?"
        )
