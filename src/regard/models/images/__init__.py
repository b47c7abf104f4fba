"""Image models: a classifier with attentive pooling, and a captioner with attention.

Both turn the image into a grid of feature vectors (`features.py`, a small CNN or patches). The
`Recogniser` pools them with one learned query; the `Captioner` has a recurrent decoder that attends
to them at each step. Either way the weights can be drawn over the image.
"""

from regard.models.images.captioner import Captioner
from regard.models.images.config import CaptionerConfig, RecogniserConfig
from regard.models.images.recogniser import Recogniser

__all__ = ["Captioner", "CaptionerConfig", "Recogniser", "RecogniserConfig"]
