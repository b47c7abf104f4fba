"""Configurations of recurrent decoders and of the recurrent encoder-decoder."""

from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import InputError, UnknownNameError
from regard.models.config import Config

__all__ = ["PRESETS", "DecoderConfig", "RecurrentConfig"]


@dataclass(frozen=True)
class DecoderConfig(Config):
    """The settings of a recurrent decoder with attention, for any encoder.

    - `style` is the position of attention in a step. "bahdanau" attends before the recurrent
      update, and the context is an input of the update. "luong" attends after it and combines both,
      h~ = tanh(W [c; h]) (Luong et al. 2015, eq. 5); with `input_feeding` h~ is an input of the
      next step (section 3.3).
    - `attention` is a name of the catalog, or several joined by + ("additive + hard", "general +
      local-p"), or "none": the context is then one fixed vector for all steps.
    - `radius` is the half width of the window of local attention.
    - `readout` is the width of the vector from which a token is predicted, None for the default.
      `tie_embeddings` uses the embedding matrix as the output matrix.
    - `maxout` makes the last layer of style "bahdanau" a maxout layer instead of tanh.
    """

    vocab: int = 8000
    d_embed: int = 256
    hidden: int = 256
    layers: int = 1
    cell: Literal["gru", "lstm"] = "gru"
    style: Literal["bahdanau", "luong"] = "bahdanau"
    attention: str = "additive"
    heads: int = 1
    radius: int = 10
    input_feeding: bool = False
    readout: int | None = None
    maxout: bool = True
    tie_embeddings: bool = False
    dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "vocab", "d_embed", "hidden", "layers", "heads", "radius", "readout")
        self.refuse_unless_rates("dropout")
        if self.input_feeding and self.style == "bahdanau":
            raise InputError(
                "input_feeding is for style='luong': in style 'bahdanau' the context enters the "
                "recurrence anyway"
            )
        if self.tie_embeddings and self.width != self.d_embed:
            raise InputError(
                f"tie_embeddings predicts with vectors of width d_embed={self.d_embed}, "
                f"got readout={self.readout}"
            )

    @property
    def width(self) -> int:
        """The width of the vector from which a token is predicted."""
        if self.readout is not None:
            return self.readout
        return self.d_embed if self.tie_embeddings else self.hidden

    @property
    def output_vocab(self) -> int:
        """The size of the vocabulary that is generated."""
        return self.vocab


@dataclass(frozen=True)
class RecurrentConfig(DecoderConfig):
    """The settings of a recurrent encoder-decoder; by default a smaller Bahdanau et al. 2015.

    `encoder_hidden` is the width of one direction of the encoder, None for half of `hidden`.
    Without a `target_vocab` both sides share one vocabulary and its embeddings.

    >>> from regard.models.recurrent import RecurrentConfig
    >>> RecurrentConfig.preset("luong", hidden=64).attention
    'general'
    """

    target_vocab: int | None = None
    encoder_hidden: int | None = None
    encoder_layers: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "target_vocab", "encoder_hidden", "encoder_layers")
        if self.encoder_hidden is None and self.hidden % 2:
            raise InputError(
                f"each direction of the encoder has half of hidden, got hidden={self.hidden}; "
                "make it even, or give encoder_hidden"
            )

    @classmethod
    def preset(cls, name: str, **settings: Any) -> "RecurrentConfig":
        """The configuration of a paper by name, with some settings replaced."""
        if name not in PRESETS:
            raise UnknownNameError("preset of RecurrentConfig", name, PRESETS)
        return cls(**PRESETS[name] | settings)

    @property
    def direction(self) -> int:
        """The width of one direction of the encoder."""
        return self.hidden // 2 if self.encoder_hidden is None else self.encoder_hidden

    @property
    def output_vocab(self) -> int:
        """The size of the vocabulary that is generated."""
        return self.vocab if self.target_vocab is None else self.target_vocab


PRESETS: dict[str, dict[str, Any]] = {
    "bahdanau": {
        "vocab": 30000, "target_vocab": 30000, "d_embed": 620, "hidden": 1000,
        "encoder_hidden": 1000, "readout": 500, "dropout": 0.0,
    },
    "luong": {
        "vocab": 50000, "target_vocab": 50000, "d_embed": 1000, "hidden": 1000, "layers": 4,
        "cell": "lstm", "style": "luong", "attention": "general", "input_feeding": True,
    },
}  # fmt: skip
