"""Texts cut to a number of tokens, and checked against a model's context length."""

from typing import Any

from regard.arguments import check_first_argument
from regard.configs import exceeds_context
from regard.errors import InputError
from regard.loading.loaded_model import LoadedModel

__all__ = ["fit_text"]


@check_first_argument
def fit_text(loaded: LoadedModel, text: str, limit: int | None = None) -> tuple[str, int]:
    """The text, or its beginning of at most `limit` tokens, and its number of tokens.

    Special tokens count. A text that is longer than the model's context is an InputError.

    >>> import regard
    >>> from regard.loading.text_length import fit_text
    >>> fit_text(regard.load("en-zh-transformer", device="cpu"), "I love you very much", limit=4)[1]
    4
    """
    # a translator has a tokenizer for each side; the text is its source
    tokenizer = getattr(loaded.tokenizer, "source", loaded.tokenizer)
    count, longest = len(tokenizer(text)["input_ids"]), loaded.context_length
    if limit is not None and limit < count:
        text, count = _cut_text(text, tokenizer, limit)
    remedy = f"read fewer with limit={longest}, or name a model with a longer context"
    sentence = exceeds_context(loaded.name, count, longest, remedy)
    if sentence is not None:
        raise InputError(sentence)
    return text, count


def _cut_text(text: str, tokenizer: Any, limit: int) -> tuple[str, int]:
    """The longest beginning of the text with at most `limit` tokens, and their number."""
    if not getattr(tokenizer, "is_fast", False):
        raise InputError("limit= needs a fast tokenizer, which tells where its tokens are")
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    # A cut text may become more tokens than it had within the whole: try again with one less.
    for count_kept in range(limit, 0, -1):
        beginning = text[: max(end for _, end in offsets[:count_kept])]
        count = len(tokenizer(beginning)["input_ids"]) if beginning else 0
        if 0 < count <= limit:
            return beginning, count
    raise InputError(f"limit={limit} leaves no text; give more tokens")
