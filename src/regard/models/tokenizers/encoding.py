"""Texts through the tokenizers library: encoded, cut where they are too long, and laid out."""

from threading import Lock
from typing import Any

import tokenizers

from regard.errors import InputError
from regard.models.tokenizers.options import Options

Encodings = list[tokenizers.Encoding]

_cutting = Lock()


def encoded(
    backend: tokenizers.Tokenizer,
    firsts: list[Any],
    seconds: list[Any] | None,
    options: Options,
    limit: int | None,
) -> Encodings:
    """The texts, each with its pair where there are `seconds`, at most `limit` tokens long."""
    if seconds is not None and len(seconds) != len(firsts):
        raise InputError(f"expected a pair for each text, got {len(firsts)} and {len(seconds)}")
    texts = firsts if seconds is None else list(zip(firsts, seconds, strict=True))
    if not options.truncates:
        return _run(backend, texts, options)
    if limit is None:
        raise InputError("truncation=True needs max_length: this tokenizer has no limit")
    with _cutting:  # the library keeps the limit in the tokenizer
        try:
            backend.enable_truncation(limit, strategy=options.strategy)
            return _run(backend, texts, options)
        finally:
            backend.no_truncation()


def parts_of(encodings: Encodings, options: Options, *, paired: bool) -> dict[str, list[Any]]:
    """What was asked of the encodings, by the names that models know."""
    asked = {
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
        name: [getattr(each, attribute) for each in encodings]
        for name, (wanted, attribute) in asked.items()
        if wanted
    }


def _run(backend: tokenizers.Tokenizer, texts: list[Any], options: Options) -> Encodings:
    split, special = options.is_split_into_words, options.add_special_tokens
    try:
        return backend.encode_batch(texts, is_pretokenized=split, add_special_tokens=special)
    except (TypeError, UnicodeError):
        expected = "lists of words" if split else "str of whole Unicode characters"
        kinds = ", ".join(sorted({type(text).__name__ for text in texts}))
        raise InputError(f"a tokenizer takes texts, {expected}, got {kinds}") from None
    except Exception as error:  # the library raises bare Exceptions
        raise InputError(f"a text cannot be cut to max_length: {error}; raise it") from None
