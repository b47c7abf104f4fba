"""Encode inputs (texts, pictures, sounds) with a processor into the arguments of a model."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.tracing.inputs.encodings import Text
from regard.tracing.inputs.token_names import TokenNamer
from regard.types import Tokens

PaddingSide = Literal["left", "right"]
InputKind = Literal["text", "pair", "image", "audio", "parts", "encoded"]

# What the tokenizer is asked for to label tokens; no model reads it.
_LABEL_PARTS = {"special_tokens_mask", "offset_mapping"}
_PROCESSOR_ARGUMENTS = {"text", "images", "videos", "audio"}
_KNOWN = (
    "a text, a pair of texts, an image, a sound as an array of one axis, a mapping of what the "
    "processor takes, a mapping of tensors, or a list of these"
)


@dataclass(frozen=True, eq=False)
class ModelInputs:
    """The arguments of a batch, and the tokens of each example (None for pictures and sounds)."""

    arguments: dict[str, Any]
    tokens: tuple[Tokens | None, ...]


class InputReader:
    """Encodes inputs with a processor, or with the part of it that is made for their kind."""

    def __init__(self, processor: Any) -> None:
        if processor is not None and not callable(processor):
            raise InputError(
                "capture expected a tokenizer or a processor that can be called, or None for "
                f"inputs that are encoded already, got {type(processor).__name__}"
            )
        self._processor = processor
        own = processor if hasattr(processor, "convert_ids_to_tokens") else None
        self.tokenizer: Any = own or getattr(processor, "tokenizer", None)
        self.namer = TokenNamer(getattr(self.tokenizer, "source", self.tokenizer))
        self.target_namer = TokenNamer(getattr(self.tokenizer, "target", self.tokenizer))

    def can_pad(self, side: PaddingSide) -> bool:
        """True if texts of different lengths can be padded to one batch."""
        can_choose = side == "right" or hasattr(self.tokenizer, "padding_side")
        return can_choose and getattr(self.tokenizer, "pad_token_id", None) is not None

    def kind(self, example: Any) -> InputKind:
        """What an example is; an error if the processor cannot read that kind."""
        kind = _input_kind(example)
        if self._processor is None and kind != "encoded":
            raise InputError(
                f"capture expected a processor that reads {_describe(example)}; without one, give "
                "a mapping of tensors such as {'input_ids': ...}"
            )
        if kind in ("text", "pair") and self.tokenizer is None:
            raise InputError(
                f"{type(self._processor).__name__} reads no texts: it has no "
                "convert_ids_to_tokens and no tokenizer; give the tokenizer of the model"
            )
        if kind in ("image", "audio") and self._processor_for(kind) is self.tokenizer:
            raise InputError(
                f"a tokenizer reads texts, got {_describe(example)}; give the model's image "
                "processor or feature extractor"
            )
        return kind

    def _processor_for(self, kind: InputKind) -> Any:
        """The part of the processor that is made for this kind of input, else the processor."""
        name = {"image": "image_processor", "audio": "feature_extractor"}.get(kind, "")
        return getattr(self._processor, name, None) or self._processor

    def encode(
        self,
        kind: InputKind,
        examples: Sequence[Any],
        side: PaddingSide,
        *,
        spelled: bool = True,
    ) -> ModelInputs:
        """The arguments and tokens of examples of one kind; only texts are batched.

        With spelled=False the tokens of texts have ids, offsets and special marks alone.
        """
        if kind in ("text", "pair"):
            texts = [_check_text(text) for text in examples]
            return self._encode_texts(texts, side, spelled=spelled)
        return self._name_encoded_batch(self._call_processor(kind, examples[0]))

    def encode_targets(self, texts: Sequence[str]) -> tuple[Tensor, Tensor, list[Tokens]]:
        """Ids and mask of target texts, padded at their ends, and their tokens."""
        if self.tokenizer is None:
            raise InputError(
                f"a target text needs a tokenizer, got {type(self._processor).__name__}; give a "
                "processor that has one, or encode the target as decoder_input_ids"
            )
        encoding = self._call_tokenizer(
            "right", text_target=[str(_check_text(text)) for text in texts]
        )
        tokens = self.target_namer.name_texts(encoding, texts)
        return encoding["input_ids"], encoding["attention_mask"], tokens

    def _encode_texts(
        self, texts: Sequence[Text], side: PaddingSide, *, spelled: bool
    ) -> ModelInputs:
        """The arguments and tokens of texts, or of pairs of texts, as one padded batch."""
        pairs = [text for text in texts if isinstance(text, tuple)]
        columns = [list(column) for column in zip(*pairs, strict=True)] if pairs else [list(texts)]
        encoding = self._call_tokenizer(side, *columns)
        tokens = self.namer.name_texts(encoding, texts, spelled=spelled)
        for text, text_tokens in zip(texts, tokens, strict=True):
            if not len(text_tokens):
                raise InputError(f"the tokenizer makes no token of {text!r}; give a longer text")
        arguments = {name: encoding[name] for name in encoding if name not in _LABEL_PARTS}
        return ModelInputs(arguments, tuple(tokens))

    def _call_tokenizer(self, side: PaddingSide, *columns: list[str], **target: list[str]) -> Any:
        """Encode texts (one column, or two for pairs), or target texts, padded on this side."""
        count = len(columns[0] if columns else target["text_target"])
        with _padding_on(self.tokenizer, side):
            return self.tokenizer(
                *columns,
                **target,
                padding=count > 1,
                return_tensors="pt",
                return_attention_mask=True,
                return_special_tokens_mask=True,
                return_offsets_mapping=getattr(self.tokenizer, "is_fast", True),
            )

    def _call_processor(self, kind: InputKind, example: Any) -> Mapping[str, Any]:
        """The arguments of one example that is not a text, from the processor made for its kind."""
        part = self._processor_for(kind)
        if kind == "encoded":
            encoding = example
        elif kind == "parts":
            encoding = part(**{"return_tensors": "pt"} | dict(example))
        elif kind == "image":
            encoding = part(images=example, return_tensors="pt")
        else:
            # an array of sound does not say its sampling rate; it is taken to be the right one
            rate = getattr(part, "sampling_rate", None)
            options = {} if rate is None else {"sampling_rate": rate}
            encoding = part(np.asarray(example), return_tensors="pt", **options)
        if not isinstance(encoding, Mapping):
            raise InputError(
                f"capture expected {type(part).__name__} to give a mapping of tensors, got "
                f"{type(encoding).__name__}"
            )
        return encoding

    def _name_encoded_batch(self, encoding: Mapping[str, Any]) -> ModelInputs:
        """The batch with tokens named from its input_ids, if it has any."""
        ids = encoding.get("input_ids")
        if ids is None:
            tensors = (value for value in encoding.values() if isinstance(value, Tensor))
            return ModelInputs(dict(encoding), (None,) * len(next(tensors)))
        if ids.dim() != 2:
            raise ShapeError(
                f"capture expected input_ids with the axes (batch token), got {tuple(ids.shape)}"
            )
        mask = encoding.get("attention_mask")
        real = torch.ones_like(ids) if mask is None or mask.shape != ids.shape else mask
        pairs = zip(ids, real.bool(), strict=True)
        tokens = tuple(self.namer.name_ids(row[is_real].tolist()) for row, is_real in pairs)
        return ModelInputs(dict(encoding), tokens)


def _input_kind(example: Any) -> InputKind:
    """What an example is, by its type and the number of its axes."""
    if isinstance(example, str):
        return "text"
    if isinstance(example, tuple) and list(map(type, example)) == [str, str]:
        return "pair"
    if isinstance(example, Mapping) and example:
        tensors = all(isinstance(value, Tensor) for value in example.values())
        return "encoded" if tensors and not _PROCESSOR_ARGUMENTS & {*example} else "parts"
    if isinstance(example, np.ndarray | Tensor):
        axes = {1: "audio", 2: "image", 3: "image"}
        if example.ndim in axes:
            return axes[example.ndim]  # type: ignore[return-value]
        raise InputError(
            f"capture expected an image with two or three axes or a sound with one, got "
            f"{_describe(example)}; give a list for several"
        )
    if hasattr(example, "__array_interface__"):  # images of PIL have it
        return "image"
    raise InputError(f"capture expected {_KNOWN}, got {_describe(example)}")


def _describe(example: Any) -> str:
    """The type of an example, and its shape if it has one, for error messages."""
    name = type(example).__name__
    shape = getattr(example, "shape", None)
    return f"{name} of shape {tuple(shape)}" if shape is not None else name


def _check_text(text: Text) -> Text:
    """The text itself; an error if it is none, or if it or one of a pair is empty."""
    if not isinstance(text, str | tuple):
        raise InputError(f"capture expected a target text, got {_describe(text)}")
    if not all((text,) if isinstance(text, str) else text):
        raise InputError("capture expected a text of at least one character, got an empty one")
    return text


@contextmanager
def _padding_on(tokenizer: Any, side: PaddingSide) -> Iterator[None]:
    """Let the tokenizer pad on this side inside the block."""
    own = getattr(tokenizer, "padding_side", None)
    if own is None:
        yield
        return
    tokenizer.padding_side = side
    try:
        yield
    finally:
        tokenizer.padding_side = own
