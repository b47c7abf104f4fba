"""Pairs of texts as several encodings each, where the second text is too long for one."""

from collections.abc import Sequence

import tokenizers

from regard.errors import InputError
from regard.models.tokenizers.encoding import truncation_lock

__all__ = ["encode_windows"]


def encode_windows(
    backend: tokenizers.Tokenizer, pairs: Sequence[tuple[str, str]], longest: int, stride: int
) -> list[list[tokenizers.Encoding]]:
    """The encodings of each pair: the first text whole, with windows of the second.

    An encoding has at most `longest` tokens, and neighbouring windows have `stride` in common.
    """
    with truncation_lock:  # the library stores the limit in the tokenizer, which threads share
        try:
            backend.enable_truncation(longest, stride=stride, strategy="only_second")
            encodings = backend.encode_batch(list(pairs))
        except Exception as error:  # the library raises bare Exceptions
            raise InputError(
                f"a question leaves no room for its text in {longest} tokens ({error}); raise "
                "data.longest"
            ) from None
        finally:
            backend.no_truncation()
    return [[encoding, *encoding.overflowing] for encoding in encodings]
