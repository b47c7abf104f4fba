"""Read what a tokenizer's encoding of a batch says about each token of one text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Text = str | tuple[str, str]  # a text, or a text and its pair
Spans = tuple[tuple[int, int], ...]
Words = tuple[int | None, ...]


@dataclass(frozen=True)
class EncodedText:
    """The tokens of one text of a batch, without padding.

    In a pair of texts, the characters and words of the second are counted on from the first.
    """

    ids: tuple[int, ...]
    added: tuple[bool, ...]  # True for tokens that the tokenizer added, such as [CLS]
    offsets: Spans | None
    words: Words | None

    @classmethod
    def of(cls, encoding: Mapping[str, Any], index: int, text: Text) -> "EncodedText":
        """The text with this index in the encoding of a batch."""
        mask = _row(encoding, "attention_mask", index)
        ids = _row(encoding, "input_ids", index) or []
        real = [position for position in range(len(ids)) if mask is None or mask[position]]

        def select_real(row: Sequence[Any] | None) -> tuple[Any, ...] | None:
            return None if row is None else tuple(row[position] for position in real)

        added = select_real(_row(encoding, "special_tokens_mask", index))
        offsets = select_real(_row(encoding, "offset_mapping", index))
        sequence_ids = select_real(_token_indices(encoding, "sequence_ids", index)) or ()
        if offsets is not None and isinstance(text, tuple):
            offsets = _shift_second_offsets(offsets, sequence_ids, len(text[0]))
        return cls(
            select_real(ids) or (),
            tuple(map(bool, added or [False] * len(real))),
            None if offsets is None else tuple((start, stop) for start, stop in offsets),
            _shift_second_words(
                select_real(_token_indices(encoding, "word_ids", index)), sequence_ids
            ),
        )


def _row(encoding: Mapping[str, Any], name: str, index: int) -> list[Any] | None:
    """The row of one text in a named part of the encoding; None if there is no such part."""
    rows = encoding.get(name)
    if rows is None:
        return None
    row = rows[index]
    return row.tolist() if hasattr(row, "tolist") else list(row)


def _token_indices(encoding: Any, name: str, index: int) -> list[int | None] | None:
    """The word index or sequence index of each token, by the encoding's method of that name.

    None for slow tokenizers, which do not have these methods.
    """
    if not getattr(encoding, "is_fast", True) or not hasattr(encoding, name):
        return None
    return list(getattr(encoding, name)(index))


def _shift_second_offsets(
    offsets: Sequence[Any], sequence_ids: Sequence[int | None], shift: int
) -> Spans:
    """The offsets of a pair of texts, with those of the second text moved behind the first."""
    pairs = zip(offsets, sequence_ids, strict=True)
    return tuple(
        (start + shift, stop + shift) if sequence == 1 else (start, stop)
        for (start, stop), sequence in pairs
    )


def _shift_second_words(words: Words | None, sequence_ids: Sequence[int | None]) -> Words | None:
    """The word indices of a pair of texts, with those of the second text counted on."""
    if words is None or 1 not in sequence_ids:
        return words
    pairs = list(zip(words, sequence_ids, strict=True))
    first_words = (word for word, sequence in pairs if word is not None and sequence == 0)
    shift = 1 + max(first_words, default=-1)
    return tuple(
        word + shift if word is not None and sequence == 1 else word for word, sequence in pairs
    )
