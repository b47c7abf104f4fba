"""The recurrent encoder-decoder: Bahdanau's, Luong's, and whatever attention is put into it."""

from regard.models.recurrent.config import RecurrentConfig
from regard.models.recurrent.model import Recurrent, RecurrentState, SampledAttention

__all__ = ["Recurrent", "RecurrentConfig", "RecurrentState", "SampledAttention"]
