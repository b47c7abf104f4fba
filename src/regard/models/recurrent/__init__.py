"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015).

The encoder turns the source ids (batch, key) into states (batch, key, key_dim). The decoder takes
the target tokens one after the other and attends to these states at each step: `SourceAttention`
prepares them once as a `SourceMemory` (additive attention projects its keys there), and each step
reads a context vector from it. The features of a step become logits (batch, length, vocab). In
generation, `begin` returns a `RecurrentState`, and each `step` takes one and returns the next.

    config.py              RecurrentConfig
    encoder.py             token embeddings and the bidirectional encoder
    source_attention.py    attention over the encoder's states, any mechanism of the catalog
    projected_keys.py      additive scores over keys that are projected once for all steps
    decoder.py             where attention stands: before the recurrent update or after it
    recurrence.py          GRU and LSTM layers, all steps at once or one by one
    unrolled_gradients.py  one large product for the gradient of a matrix used at every step
    classifier.py          RecurrentClassifier: the encoder with attentive pooling
    linear_logits.py       a linear classifier over tokens and pairs, as a part of a classifier
    reader.py              RecurrentReader: where in a text the answer to a question stands
    pairs.py               vectors for pairs of neighbouring tokens
    pointer_generator.py   PointerGenerator: tokens of the source can be copied
    model.py               Recurrent, and the base class that it shares with the image captioner

The parameter names (`words.table`, `reader.U`) are part of the checkpoint format and cannot change.
"""

from regard.models.recurrent.classifier import ClassifierConfig, RecurrentClassifier
from regard.models.recurrent.config import RecurrentConfig
from regard.models.recurrent.model import Recurrent, RecurrentState, SampledAttention
from regard.models.recurrent.pointer_generator import PointerGenerator, PointerGeneratorConfig
from regard.models.recurrent.reader import ReaderConfig, RecurrentReader

__all__ = [
    "ClassifierConfig",
    "PointerGenerator",
    "PointerGeneratorConfig",
    "ReaderConfig",
    "Recurrent",
    "RecurrentClassifier",
    "RecurrentConfig",
    "RecurrentReader",
    "RecurrentState",
    "SampledAttention",
]
