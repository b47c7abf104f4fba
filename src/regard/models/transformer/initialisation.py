"""Weight initialisation of a Transformer."""

import math

from torch import nn

from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.embeddings import PatchEmbeddings, Positions

__all__ = ["initialise"]


def initialise(model: nn.Module, config: TransformerConfig) -> None:
    """Initialise all matrices: by Xavier's rule (Glorot & Bengio 2010), or from N(0, init_std^2).

    With Xavier's rule embeddings come from N(0, 1/d_model), so that scaled by sqrt(d_model) they
    have unit variance (Vaswani et al. 2017, section 3.4). Biases begin at zero.
    """
    std = 1.0 / math.sqrt(config.d_model) if config.init_std is None else config.init_std
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            _draw_matrix(module, config.init_std)
        elif isinstance(module, Positions) and config.positions == "learned":
            nn.init.normal_(module.table, std=0.02)
        elif isinstance(module, PatchEmbeddings):
            nn.init.normal_(module.first, std=0.02)
    for module in model.modules():
        # Embeddings come last: a matrix that is tied to an embedding keeps the embedding's numbers.
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=std)


def _draw_matrix(module: nn.Linear | nn.Conv2d, std: float | None) -> None:
    """Draw the weights of one layer; its bias becomes zero."""
    if std is None:
        nn.init.xavier_uniform_(module.weight)
    else:
        nn.init.normal_(module.weight, std=std)
    if module.bias is not None:
        nn.init.zeros_(module.bias)
