"""Networks with attention: building them, loading them from checkpoints, generating with them."""

from regard.models.checkpoints import Pretrained, from_pretrained, shipped_models
from regard.models.config import Config
from regard.models.generation import GeneratedSequences, GenerationSettings
from regard.models.images import Captioner, CaptionerConfig, Recogniser, RecogniserConfig
from regard.models.matching import Matcher, MatcherConfig
from regard.models.recurrent import (
    ClassifierConfig,
    PointerGenerator,
    PointerGeneratorConfig,
    ReaderConfig,
    Recurrent,
    RecurrentClassifier,
    RecurrentConfig,
    RecurrentReader,
)
from regard.models.tokenizers import Tokenizer
from regard.models.transformer.config import TransformerConfig
from regard.models.transformer.model import Transformer

__all__ = [
    "Captioner",
    "CaptionerConfig",
    "ClassifierConfig",
    "Config",
    "GeneratedSequences",
    "GenerationSettings",
    "Matcher",
    "MatcherConfig",
    "PointerGenerator",
    "PointerGeneratorConfig",
    "Pretrained",
    "ReaderConfig",
    "Recogniser",
    "RecogniserConfig",
    "Recurrent",
    "RecurrentClassifier",
    "RecurrentConfig",
    "RecurrentReader",
    "Tokenizer",
    "Transformer",
    "TransformerConfig",
    "from_pretrained",
    "shipped_models",
]
