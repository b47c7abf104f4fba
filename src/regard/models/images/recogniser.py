"""Recogniser: image classification by attentive pooling over a feature map."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.models.checkpoints.pretrained import Pretrained
from regard.models.checkpoints.registry import register
from regard.models.images.config import RecogniserConfig
from regard.models.images.features import FeatureMap, Pixels
from regard.models.recurrent.source_attention import make_source_attention


@register
class Recogniser(Pretrained):
    """Classifies images: a learned query attends to the cells (Yang et al. 2016, eq. 5 to 7).

    >>> import torch
    >>> from regard.models.images import Recogniser
    >>> Recogniser(classes=7, widths=(8, 16))(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 7])
    """

    config_class = RecogniserConfig
    config: RecogniserConfig

    def __init__(self, config: RecogniserConfig | None = None, **settings: Any) -> None:
        super().__init__()
        config = RecogniserConfig(**settings) if config is None else config.replace(**settings)
        self.config = config
        self.features = FeatureMap(config)
        dim = self.features.dim
        self.query = nn.Parameter(torch.empty(dim))
        self.reader = make_source_attention(config.attention, dim, dim, heads=config.heads)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(self.reader.dim, config.classes)
        nn.init.normal_(self.query, std=0.02)

    def forward(self, pixel_values: Pixels) -> Float[Tensor, "batch label"]:
        """The logits of the classes."""
        cells = self.features(pixel_values)
        query = self.query.expand(len(cells), 1, -1)
        context = self.reader.read(query, self.reader.memory(cells, None))[:, 0]
        logits: Tensor = self.output(self.dropout(context))
        return logits
