"""Small Transformers of every kind; their sizes are distinct primes where they may be."""

import torch

from regard.models import Transformer, TransformerConfig

VOCAB, TARGET = 101, 103
SMALL = {"vocab": VOCAB, "d_model": 24, "layers": 2, "heads": 6, "d_ff": 29, "max_positions": 41}

WRITERS = {
    "vaswani": TransformerConfig(**SMALL),
    "pre-norm": TransformerConfig(**SMALL, norm_first=True),
    "two vocabularies": TransformerConfig(**SMALL, target_vocab=TARGET, tie_embeddings=False),
    "uneven": TransformerConfig(**SMALL, decoder_layers=3, decoder_heads=3, decoder_d_ff=31),
    "marian": TransformerConfig.preset("marian", **SMALL),
    "bart": TransformerConfig.preset("bart", **SMALL),
    "rotary": TransformerConfig(**SMALL, positions="rotary", rotary_pairs="neighbours"),
    "gpt2": TransformerConfig.preset("gpt2", **SMALL),
    "llama": TransformerConfig.preset("llama", **SMALL, key_heads=2),
    "llama with biases": TransformerConfig.preset("llama", **SMALL, attention_bias=True),
    "no positions": TransformerConfig(**SMALL, kind="decoder", positions="none"),
}


def small(name: str, **settings) -> Transformer:
    """One of the writers, ready to be used."""
    return Transformer(WRITERS[name].replace(dropout=0.0, **settings)).eval()


def inputs(model: Transformer, rows: int, length: int, *, side: str = "right"):
    """Ids and their marks: row i has i tokens of padding fewer than the longest prefix allows."""
    ids = torch.randint(model.config.vocab, (rows, length))
    pads = torch.arange(rows)[:, None] * 2 % (length - 1)
    slots = torch.arange(length)
    marks = slots < length - pads if side == "right" else slots >= pads
    return ids, marks.long()


def written(model: Transformer, rows: int, length: int) -> torch.Tensor:
    """Ids of the target's vocabulary."""
    return torch.randint(model.config.target_vocab or model.config.vocab, (rows, length))


def encoder(**settings) -> Transformer:
    """A small BERT, ready to be used."""
    return Transformer(
        TransformerConfig.preset("bert", **SMALL).replace(dropout=0.0, **settings)
    ).eval()
