"""What a tokenizer's encoding says of each token of a text, padding left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Text = str | tuple[str, str]  # a text, or a text and its pair
Spans = tuple[tuple[int, int], ...]
Words = tuple[int | None, ...]


@dataclass(frozen=True)
class Encoded:
    """One text of a batch; the pair of a text counts its characters and words on from it."""

    ids: tuple[int, ...]
    added: tuple[bool, ...]  # by the tokenizer, such as [CLS]
    offsets: Spans | None
    words: Words | None

    @classmethod
    def of(cls, encoding: Mapping[str, Any], index: int, text: Text) -> "Encoded":
        """The text's row of the encoding of a batch."""
        mask = _row(encoding, "attention_mask", index)
        ids = _row(encoding, "input_ids", index) or []
        real = [place for place in range(len(ids)) if mask is None or mask[place]]

        def of_real(row: Sequence[Any] | None) -> tuple[Any, ...] | None:
            return None if row is None else tuple(row[place] for place in real)

        added = of_real(_row(encoding, "special_tokens_mask", index))
        offsets = of_real(_row(encoding, "offset_mapping", index))
        second = of_real(_numbers(encoding, "sequence_ids", index)) or ()
        if offsets is not None and isinstance(text, tuple):
            offsets = _onward(offsets, second, len(text[0]))
        return cls(
            of_real(ids) or (),
            tuple(map(bool, added or [False] * len(real))),
            None if offsets is None else tuple((start, stop) for start, stop in offsets),
            _counted(of_real(_numbers(encoding, "word_ids", index)), second),
        )


def _row(encoding: Mapping[str, Any], name: str, index: int) -> list[Any] | None:
    rows = encoding.get(name)
    if rows is None:
        return None
    row = rows[index]
    return row.tolist() if hasattr(row, "tolist") else list(row)


def _numbers(encoding: Any, name: str, index: int) -> list[int | None] | None:
    """The words or sequences of an encoding's tokens; slow tokenizers do not know them."""
    if not getattr(encoding, "is_fast", True) or not hasattr(encoding, name):
        return None
    return list(getattr(encoding, name)(index))


def _onward(offsets: Sequence[Any], second: Sequence[int | None], more: int) -> Spans:
    pairs = zip(offsets, second, strict=True)
    return tuple((a + more, b + more) if of == 1 else (a, b) for (a, b), of in pairs)


def _counted(words: Words | None, second: Sequence[int | None]) -> Words | None:
    if words is None or 1 not in second:
        return words
    pairs = list(zip(words, second, strict=True))
    more = 1 + max((word for word, of in pairs if word is not None and of == 0), default=-1)
    return tuple(word + more if word is not None and of == 1 else word for word, of in pairs)
