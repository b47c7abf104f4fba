"""Recurrent models of every kind, small, and a padded batch for them."""

import torch
from torch import Tensor

from regard.models.recurrent import Recurrent

BATCH, SOURCE, TARGET, VOCAB, WRITTEN = 3, 7, 5, 53, 61
SIZES = {"vocab": VOCAB, "target_vocab": WRITTEN, "d_embed": 11, "hidden": 13, "dropout": 0.0}
SAME = {"hidden": 14}  # so that the encoder's states are as wide as the decoder's
HEADS = {"hidden": 12, "heads": 3}

VARIANTS: dict[str, dict] = {
    "bahdanau gru": {},
    "bahdanau gru, tanh": {"maxout": False},
    "bahdanau lstm, 2 layers": {"cell": "lstm", "layers": 2},
    "bahdanau gru, 3 over 2 layers": {"layers": 3, "encoder_layers": 2},
    "bahdanau none": {"attention": "none"},
    "bahdanau none lstm": {"attention": "none", "cell": "lstm"},
    "bahdanau hard": {"attention": "additive + hard"},
    "bahdanau straight-through": {"attention": "general + straight-through"},
    "bahdanau local-m": {"attention": "general + local-m", "radius": 2},
    "bahdanau local-p": {"attention": "additive + local-p", "radius": 2},
    "bahdanau sparsemax": {"attention": "general + sparsemax"},
    "bahdanau dot": {"attention": "dot", **SAME},
    "bahdanau multi-head": {"attention": "multi-head", **HEADS},
    "bahdanau single-head": {"attention": "single-head"},
    "luong general": {"style": "luong", "attention": "general"},
    "luong additive lstm": {"style": "luong", "cell": "lstm", "layers": 2},
    "luong dot": {"style": "luong", "attention": "dot", **SAME},
    "luong scaled-dot tied": {
        "style": "luong", "attention": "scaled-dot", "tie_embeddings": True, **SAME,
    },
    "luong cosine": {"style": "luong", "attention": "cosine", **SAME},
    "luong hard": {"style": "luong", "attention": "general + hard"},
    "luong local-m": {"style": "luong", "attention": "general + local-m", "radius": 1},
    "luong local-p": {"style": "luong", "attention": "local-p", "radius": 3},
    "luong alibi": {"style": "luong", "attention": "general + alibi"},
    "luong none": {"style": "luong", "attention": "none"},
    "luong rotary": {"style": "luong", "attention": "rotary", **HEADS, "heads": 2},
    "luong feeding": {"style": "luong", "attention": "general", "input_feeding": True},
    "luong feeding lstm": {
        "style": "luong", "cell": "lstm", "layers": 2, "input_feeding": True, "readout": 17,
    },
    "luong feeding none": {"style": "luong", "attention": "none", "input_feeding": True},
}  # fmt: skip


def built(name: str, **settings) -> Recurrent:
    sizes = SIZES | VARIANTS[name] | settings
    sizes.setdefault("encoder_hidden", None if sizes["hidden"] % 2 == 0 else 8)
    return Recurrent(**sizes).double().eval()


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Source, what is written, and a mask under which the second source is short."""
    source = torch.randint(0, VOCAB, (BATCH, SOURCE))
    written = torch.randint(0, WRITTEN, (BATCH, TARGET))
    mask = torch.ones(BATCH, SOURCE, dtype=torch.long)
    mask[1, 4:] = 0
    return source, written, mask
