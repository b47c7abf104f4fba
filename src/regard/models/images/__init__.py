"""Image models: a classifier with attentive pooling, and a captioner with attention."""

from regard.models.images.captioner import Captioner
from regard.models.images.config import CaptionerConfig, RecogniserConfig
from regard.models.images.recogniser import Recogniser

__all__ = ["Captioner", "CaptionerConfig", "Recogniser", "RecogniserConfig"]
