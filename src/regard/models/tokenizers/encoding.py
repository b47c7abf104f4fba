"""Encoding texts with the tokenizers library: options of a call, truncation, and its result."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from threading import Lock
from typing import Any, Literal

import numpy as np
import tokenizers
import torch

from regard.errors import InputError, UnknownNameError

_LONGEST = 1 << 31  # tokens; the library takes no number that is much larger


class BatchEncoding(dict[str, Any]):
    """Ids, masks and offsets of a batch by name; `batch.input_ids` is `batch["input_ids"]`.

    `encodings` are the results of the tokenizers library, one for each text.
    """

    def __init__(self, parts: dict[str, Any], encodings: Sequence[tokenizers.Encoding]) -> None:
        super().__init__(parts)
        self.encodings = list(encodings)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this batch has {', '.join(self)}, and no {name!r}") from None

    def to(self, device: str | torch.device) -> "BatchEncoding":
        """This batch, with its tensors moved to the device in place."""
        for name, part in self.items():
            if isinstance(part, torch.Tensor):
                self[name] = part.to(device)
        return self

    def tokens(self, index: int = 0) -> list[str]:
        """The tokens of one text."""
        return list(self.encodings[index].tokens)

    def word_ids(self, index: int = 0) -> list[int | None]:
        """The word that each token of one text is a part of; None for a special token."""
        return list(self.encodings[index].word_ids)

    def sequence_ids(self, index: int = 0) -> list[int | None]:
        """0 for tokens of the text, 1 for those of its pair, None for special tokens."""
        return list(self.encodings[index].sequence_ids)


def as_tensor(rows: list[Any], kind: str | None) -> Any:
    """Rows of the same length as one tensor ("pt") or array ("np"), or as they are (None)."""
    if kind is None:
        return rows
    if len({len(row) for row in rows}) > 1:
        shortest, longest = min(map(len, rows)), max(map(len, rows))
        raise InputError(
            f"the texts have {shortest} to {longest} tokens; one tensor needs padding=True"
        )
    if kind == "np":
        return np.array(rows, dtype=np.int64)
    return torch.tensor(rows, dtype=torch.long)


_PADDING = (False, True, "longest", "max_length", "do_not_pad")
_TRUNCATION = (False, True, "longest_first", "only_first", "only_second", "do_not_truncate")


@dataclass(frozen=True)
class Options:
    """The keyword arguments of a tokenizer's call, with the names of Hugging Face."""

    return_tensors: Literal["pt", "np"] | None = None
    padding: bool | str = False
    truncation: bool | str = False
    max_length: int | None = None
    add_special_tokens: bool = True
    pad_to_multiple_of: int | None = None
    is_split_into_words: bool = False
    return_attention_mask: bool = True
    return_token_type_ids: bool | None = None
    return_special_tokens_mask: bool = False
    return_offsets_mapping: bool = False

    @property
    def truncates(self) -> bool:
        """True if texts that are too long are truncated."""
        return self.truncation not in (False, "do_not_truncate")

    @property
    def pads(self) -> bool:
        """True if short texts are padded."""
        return self.padding not in (False, "do_not_pad")

    def width(self, longest: int) -> int:
        """The number of tokens of each text after padding, given that of the longest text."""
        width = longest
        if self.padding == "max_length":
            if self.max_length is None:
                raise InputError('padding="max_length" needs max_length; give it, or padding=True')
            width = max(longest, self.max_length)
        step = self.pad_to_multiple_of or 1
        return -(-width // step) * step

    @property
    def strategy(self) -> str:
        """The truncation strategy: which of a text and its pair is truncated."""
        return self.truncation if isinstance(self.truncation, str) else "longest_first"


def check_options(keywords: dict[str, Any]) -> Options:
    """The keyword arguments of a call as Options; an UnknownNameError for an unknown one."""
    known = [field.name for field in fields(Options)]
    for name in keywords:
        if name not in known:
            raise UnknownNameError("option of a tokenizer", name, known)
    options = Options(**keywords)
    for name, value, expected in (
        ("return_tensors", options.return_tensors, (None, "pt", "np")),
        ("padding", options.padding, _PADDING),
        ("truncation", options.truncation, _TRUNCATION),
    ):
        if value not in expected:
            raise InputError(f"{name} should be one of {expected}, got {value!r}")
    return options


Encodings = list[tokenizers.Encoding]

truncation_lock = Lock()


def encode_texts(
    backend: tokenizers.Tokenizer,
    firsts: list[Any],
    seconds: list[Any] | None,
    options: Options,
    limit: int | None,
) -> Encodings:
    """The encodings of texts, each with its pair if there are `seconds`.

    If the options truncate, an encoding has at most `limit` tokens.
    """
    if seconds is not None and len(seconds) != len(firsts):
        raise InputError(f"expected a pair for each text, got {len(firsts)} and {len(seconds)}")
    texts = firsts if seconds is None else list(zip(firsts, seconds, strict=True))
    if not options.truncates:
        return _encode_batch(backend, texts, options)
    if limit is None:
        raise InputError("truncation=True needs max_length: this tokenizer has no limit")
    with truncation_lock:  # the library stores the limit in the tokenizer, which threads share
        try:
            backend.enable_truncation(min(limit, _LONGEST), strategy=options.strategy)
            return _encode_batch(backend, texts, options)
        finally:
            backend.no_truncation()


def encoding_fields(
    encodings: Encodings, options: Options, *, paired: bool
) -> dict[str, list[Any]]:
    """The fields of the encodings that the options ask for, by the names that models use."""
    # Name in the batch -> whether it is included, and its name in the tokenizers library.
    attributes = {
        "input_ids": (True, "ids"),
        "token_type_ids": (
            paired if options.return_token_type_ids is None else options.return_token_type_ids,
            "type_ids",
        ),
        "attention_mask": (options.return_attention_mask, "attention_mask"),
        "special_tokens_mask": (options.return_special_tokens_mask, "special_tokens_mask"),
        "offset_mapping": (options.return_offsets_mapping, "offsets"),
    }
    return {
        name: [getattr(encoding, attribute) for encoding in encodings]
        for name, (included, attribute) in attributes.items()
        if included
    }


def _encode_batch(backend: tokenizers.Tokenizer, texts: list[Any], options: Options) -> Encodings:
    """The encodings of a batch; the library's errors become InputErrors."""
    split, special = options.is_split_into_words, options.add_special_tokens
    try:
        return backend.encode_batch(texts, is_pretokenized=split, add_special_tokens=special)
    except (TypeError, UnicodeError):
        expected = "lists of words" if split else "str of whole Unicode characters"
        kinds = ", ".join(sorted({type(text).__name__ for text in texts}))
        raise InputError(f"a tokenizer takes texts, {expected}, got {kinds}") from None
    except Exception as error:  # the library raises bare Exceptions
        raise InputError(f"a text cannot be cut to max_length: {error}; raise it") from None
