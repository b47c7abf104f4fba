"""TransformerConfig: the settings that select one architecture of the Transformer family.

One class covers encoder-decoders (Vaswani, Marian, BART), decoders (GPT-2, Llama), encoders (BERT)
and vision Transformers. `PRESETS` has the settings of each by name, as differences from the
defaults.
"""

from dataclasses import dataclass
from typing import Any, Literal

from regard.attention import catalog
from regard.errors import InputError, UnknownNameError
from regard.models.config import Config

__all__ = ["PRESETS", "TransformerConfig"]

# Mechanisms that are no attention from queries to keys alone, and the models that have them.
_LAYERS_ELSEWHERE = {
    "co-attention": "RecurrentReader",
    "copy": "PointerGenerator",
    "coverage": "PointerGenerator",
}
_LARGEST_TABLE = 1 << 28  # numbers, which is a gigabyte in float32

Kind = Literal["encoder-decoder", "decoder", "encoder", "vision"]
Positions = Literal["sinusoidal", "sinusoidal-halves", "learned", "rotary", "none"]
Head = Literal["language", "classes", "spans", "none"]


@dataclass(frozen=True)
class TransformerConfig(Config):
    """The settings of a Transformer; by default the base model of Vaswani et al. 2017 (table 3).

    - `layers`, `heads` and `d_ff` hold for encoder and decoder; `decoder_layers`, `decoder_heads`
      and `decoder_d_ff` replace them in the decoder. `key_heads` below `heads` is grouped-query
      attention.
    - `vocab` is the size of the vocabulary that both sides share (section 5.1); with a
      `target_vocab` each side has its own.
    - `attention` is a name of the catalog; `cross_attention` is the one for decoder to encoder.
      None is the same, or scaled-dot attention if `attention` depends on distances within a text.
    - `final_norm` None adds a norm after the last layer if `norm_first` is set. `head` None is a
      language model's head for kinds that generate text, and no head (hidden states) for the
      others.
    - `label_names` are the names of the `labels` classes, or empty if they have none. With
      `multi_label` an input may have several labels, each with a probability of its own.
    - `window` is the number of tokens of the windows in which a longer text is best read, None if
      that is as many as there are positions. It changes nothing that the model computes.
    - `init_std` None initialises matrices by Xavier's rule and embeddings from N(0, 1/d_model); a
      number initialises all of them from N(0, init_std^2).
    - `alignment_layer` is the decoder layer, counted from 0, whose cross-attention gives the best
      word alignment of source and target; None is the last layer.
    - `precision` "int8" stores large matrices in 8 bits, for inference only: see
      `Transformer.to_int8`.

    >>> from regard.models import TransformerConfig
    >>> TransformerConfig(kind="decoder", positions="rotary", heads=4).head_dim
    128
    """

    kind: Kind = "encoder-decoder"
    vocab: int = 37000
    target_vocab: int | None = None
    d_model: int = 512
    layers: int = 6
    decoder_layers: int | None = None
    heads: int = 8
    decoder_heads: int | None = None
    key_heads: int | None = None
    d_ff: int = 2048
    decoder_d_ff: int | None = None
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    attention: str = "scaled-dot"
    cross_attention: str | None = None
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = False
    norm_eps: float = 1e-5
    final_norm: bool | None = None
    embedding_norm: bool = False
    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "relu"
    gated: bool = False
    bias: bool = True
    attention_bias: bool | None = None
    positions: Positions = "sinusoidal"
    max_positions: int = 5000
    window: int | None = None
    rotary_base: float = 10000.0
    rotary_pairs: Literal["neighbours", "halves"] = "halves"
    scale_embedding: bool = True
    tie_embeddings: bool = True
    types: int = 0
    head: Head | None = None
    head_transform: bool = False
    output_bias: bool = False
    labels: int = 2
    label_names: tuple[str, ...] = ()
    multi_label: bool = False
    pooling: Literal["attentive", "first", "pooler"] = "attentive"
    pooler: bool = False
    image_size: int = 224
    patch: int = 16
    channels: int = 3
    init_std: float | None = None
    alignment_layer: int | None = None
    precision: Literal["float", "int8"] = "float"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "vocab", "target_vocab", "d_model", "heads", "decoder_heads")
        self.refuse_below(
            1, "key_heads", "d_ff", "decoder_d_ff", "max_positions", "labels", "window"
        )
        self.refuse_below(1, "image_size", "patch", "channels")
        self.refuse_below(0, "layers", "decoder_layers", "types", "init_std", "norm_eps")
        self.refuse_below(0, "alignment_layer")
        self.refuse_unless_rates("dropout", "attention_dropout", "activation_dropout")
        _check_label_names(self)
        _check_heads(self)
        _check_positions(self)
        _check_kind(self)
        for name in (self.attention, self.cross_attention):
            # raises an UnknownNameError if there is no such mechanism
            if name is not None and catalog[name].name in _LAYERS_ELSEWHERE:
                raise InputError(
                    f"{name!r} is a layer of a {_LAYERS_ELSEWHERE[catalog[name].name]}; a "
                    "Transformer has no place for it, choose another mechanism"
                )

    @classmethod
    def preset(cls, name: str, **settings: Any) -> "TransformerConfig":
        """The configuration of a well-known architecture, with some settings replaced.

        >>> from regard.models import TransformerConfig
        >>> TransformerConfig.preset("llama", d_model=64, heads=4).norm
        'rms'
        """
        if name not in PRESETS:
            raise UnknownNameError("preset of TransformerConfig", name, PRESETS)
        return cls(**PRESETS[name] | settings)

    @property
    def head_dim(self) -> int:
        """The width of one attention head, d_model / heads."""
        return self.d_model // self.heads

    @property
    def is_encoder_decoder(self) -> bool:
        """True for an encoder-decoder; configs of Hugging Face have the same attribute."""
        return self.kind == "encoder-decoder"

    @property
    def pools(self) -> bool:
        """True if the model has a pooler, a dense layer over the first token."""
        return self.pooler or (self.ending == "classes" and self.pooling == "pooler")

    @property
    def ending(self) -> Head:
        """The head of the model: `head`, or by default "language" for kinds that generate text."""
        if self.head is not None:
            return self.head
        return "language" if self.kind in ("encoder-decoder", "decoder") else "none"


_BERT = {
    "norm_eps": 1e-12, "embedding_norm": True, "activation": "gelu", "positions": "learned",
    "max_positions": 512, "scale_embedding": False, "init_std": 0.02,
}  # fmt: skip

PRESETS: dict[str, dict[str, Any]] = {
    "vaswani": {},
    "marian": {"positions": "sinusoidal-halves", "activation": "silu", "output_bias": True},
    "bart": {
        "positions": "learned", "activation": "gelu", "embedding_norm": True,
        "max_positions": 1024, "scale_embedding": False, "output_bias": True, "init_std": 0.02,
    },
    "gpt2": {
        "kind": "decoder", "norm_first": True, "activation": "gelu-tanh", "positions": "learned",
        "max_positions": 1024, "scale_embedding": False, "init_std": 0.02,
    },
    "llama": {
        "kind": "decoder", "norm": "rms", "norm_first": True, "activation": "silu", "gated": True,
        "bias": False, "positions": "rotary", "scale_embedding": False, "tie_embeddings": False,
        "dropout": 0.0, "init_std": 0.02,
    },
    "bert": _BERT | {"kind": "encoder", "types": 2},
    "vit": {
        "kind": "vision", "norm_first": True, "norm_eps": 1e-12, "activation": "gelu",
        "positions": "learned", "scale_embedding": False, "dropout": 0.0, "init_std": 0.02,
    },
}  # fmt: skip


def _check_label_names(config: TransformerConfig) -> None:
    """Raise an InputError unless there is a name for each class, or none at all."""
    if config.label_names and len(config.label_names) != config.labels:
        raise InputError(
            f"expected a name for each of {config.labels} labels, got {len(config.label_names)} "
            "label_names"
        )


def _check_heads(config: TransformerConfig) -> None:
    """Raise an InputError unless the widths can be divided among the heads."""
    for name in ("heads", "decoder_heads"):
        heads = getattr(config, name)
        if heads is not None and config.d_model % heads:
            raise InputError(
                f"d_model should be a multiple of {name}, got d_model={config.d_model}, "
                f"{name}={heads}"
            )
    if config.key_heads is not None and config.heads % config.key_heads:
        raise InputError(
            f"heads should be a multiple of key_heads, got heads={config.heads}, "
            f"key_heads={config.key_heads}"
        )


def _check_positions(config: TransformerConfig) -> None:
    """Raise an InputError if positions cannot be computed for these sizes."""
    if config.positions == "rotary" and config.head_dim % 2:
        raise InputError(
            f"rotary positions turn pairs: d_model / heads should be even, got {config.head_dim}"
        )
    if config.positions == "rotary" and config.rotary_base <= 0:
        raise InputError(f"expected a rotary_base above 0, got {config.rotary_base}")
    table = config.max_positions * config.d_model
    if config.positions.startswith("sinusoidal") and table > _LARGEST_TABLE:
        raise InputError(
            f"sinusoidal positions are a table of max_positions x d_model numbers, got {table:,}; "
            f"expected at most {_LARGEST_TABLE:,}"
        )


def _check_kind(config: TransformerConfig) -> None:
    """Raise an InputError if a setting does not fit the kind of Transformer."""
    if config.target_vocab is not None and config.kind != "encoder-decoder":
        raise InputError(f"target_vocab is for an encoder-decoder, got kind={config.kind!r}")
    if config.kind == "encoder-decoder" and config.ending not in ("language", "none"):
        raise InputError(f"an encoder-decoder has head 'language' or 'none', got {config.ending!r}")
    if config.kind == "vision" and config.ending in ("language", "spans"):
        raise InputError(
            f"a vision Transformer has head 'classes' or 'none', got {config.ending!r}"
        )
    if config.kind == "vision" and config.image_size % config.patch:
        raise InputError(
            f"image_size should be a multiple of patch, got {config.image_size} and {config.patch}"
        )
