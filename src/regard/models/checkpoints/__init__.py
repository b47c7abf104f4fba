"""Checkpoints: folders that hold a model, ours and Hugging Face's, and the hub."""

from regard.models.checkpoints.locations import shipped_models
from regard.models.checkpoints.pretrained import Pretrained, from_pretrained
from regard.models.checkpoints.registry import register

__all__ = ["Pretrained", "from_pretrained", "register", "shipped_models"]
