"""Models that see: feature maps, recognition, and captions that look where they speak of."""

from regard.models.images.captioner import Captioner
from regard.models.images.config import CaptionerConfig, RecogniserConfig
from regard.models.images.recogniser import Recogniser

__all__ = ["Captioner", "CaptionerConfig", "Recogniser", "RecogniserConfig"]
