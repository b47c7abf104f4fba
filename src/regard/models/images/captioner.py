"""Image captioning: Show, attend and tell (Xu et al. 2015)."""

from typing import Any

from torch import Tensor

from regard.errors import InputError
from regard.models.checkpoints.registry import register
from regard.models.generation import GeneratedSequences
from regard.models.images.config import CaptionerConfig
from regard.models.images.features import FeatureMap, Pixels
from regard.models.recurrent.encoder import Encoded
from regard.models.recurrent.model import Ids, Logits, RecurrentDecoderModel


@register
class Captioner(RecurrentDecoderModel):
    """Generates the caption of an image, attending to its cells at each step (Xu et al. 2015).

    The decoder starts from the mean of the annotations (section 3.1.2); attention is soft (4.2)
    or hard (4.1), trained by REINFORCE through `sample_attention`.

    >>> import torch
    >>> from regard.models.images import Captioner
    >>> model = Captioner(vocab=101, d_embed=16, hidden=32, widths=(8, 16))
    >>> model(torch.randn(2, 3, 32, 32), torch.tensor([[1, 8], [1, 9]])).shape
    torch.Size([2, 2, 101])
    """

    config_class = CaptionerConfig
    config: CaptionerConfig

    def __init__(self, config: CaptionerConfig | None = None, **settings: Any) -> None:
        config = CaptionerConfig(**settings) if config is None else config.replace(**settings)
        super().__init__(config, config.widths[-1])
        self.features = FeatureMap(config)

    def forward(self, pixel_values: Pixels, decoder_input_ids: Ids) -> Logits:
        """The logits of the next token after each of `decoder_input_ids`."""
        return self.decode(self.encode(pixel_values), decoder_input_ids)

    def generate(  # type: ignore[override]  # pixels instead of ids
        self, pixel_values: Any, attention_mask: Tensor | None = None, **settings: Any
    ) -> GeneratedSequences:
        """The captions that the model generates, as ids."""
        return super().generate(pixel_values, attention_mask, **settings)

    def encode(self, source: Pixels, attention_mask: Tensor | None = None) -> Encoded:
        """The cells of the feature map, and their mean as the vector of the whole image."""
        if attention_mask is not None:
            raise InputError("a picture has no padding to mask; leave attention_mask out")
        cells = self.features(source)
        return Encoded(cells, cells.mean(dim=1), None)
