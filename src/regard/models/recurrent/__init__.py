"""The recurrent encoder-decoder with attention, in the manner of Bahdanau or of Luong.

    config.py              RecurrentConfig
    encoder.py             token embeddings and the bidirectional encoder
    source_attention.py    attention over the encoder's states, any mechanism of the catalog
    projected_keys.py      additive scores over keys that are projected once for all steps
    decoder.py             where attention stands: before the recurrent update or after it
    recurrence.py          GRU and LSTM layers, all steps at once or one by one
    unrolled_gradients.py  one large product for the gradient of a matrix used at every step
    model.py               Recurrent, and the base class that it shares with the image captioner

The parameter names (`words.table`, `reader.U`) are part of the checkpoint format.
"""

from regard.models.recurrent.config import RecurrentConfig
from regard.models.recurrent.model import Recurrent, RecurrentState, SampledAttention

__all__ = ["Recurrent", "RecurrentConfig", "RecurrentState", "SampledAttention"]
