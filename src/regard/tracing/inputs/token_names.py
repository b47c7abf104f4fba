"""Tokens from a tokenizer: of texts that it encoded, or of ids that a model produced."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from regard.tracing.inputs.encodings import Encoded, Spans, Text, Words
from regard.tracing.inputs.spelling import Piece, Spelled, Spelling, spell
from regard.types import Tokens


class Labels:
    """Makes Tokens with a tokenizer; without one, ids are their own texts."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._spelling = Spelling.of(tokenizer)
        self._special = _special_ids(tokenizer)
        added: dict[str, int] = getattr(tokenizer, "get_added_vocab", dict)()
        self._literal = {*added.values()} | self._special

    def of_ids(self, ids: Sequence[int]) -> Tokens:
        """Tokens of ids alone, their words by spaces and marks.

        Offsets are characters of the text that the tokenizer decodes the ids to, and are there
        if it is the text that the pieces spell.
        """
        if self._tokenizer is None:
            return Tokens(tuple(map(str, ids)), tuple(ids))
        special = tuple(each in self._special for each in ids)
        spelled = self._spell(ids, special)
        offsets, words = self._offsets(ids, spelled), spelled.words(special)
        return Tokens(spelled.texts, tuple(ids), offsets, words, special)

    def of_texts(self, encoding: Mapping[str, Any], texts: Sequence[Text]) -> list[Tokens]:
        """Tokens of each text of a batch as the tokenizer encoded it, without padding."""
        return [self._of_text(Encoded.of(encoding, *each)) for each in enumerate(texts)]

    def _of_text(self, encoded: Encoded) -> Tokens:
        special = tuple(
            each in self._special or added
            for each, added in zip(encoded.ids, encoded.added, strict=True)
        )
        spelled = self._spell(encoded.ids, special)
        words = encoded.words
        if words is None or len({*words} - {None}) == 1:  # it may not cut into words at all
            words = spelled.words(special)
        return Tokens(spelled.texts, encoded.ids, encoded.offsets, words, special)

    def continued(self, prompt: Tokens, ids: Sequence[int]) -> Tokens:
        """The prompt and what a model went on with; offsets and words go on too."""
        both = self.of_ids((*(prompt.ids or ()), *ids))
        texts = [place for place, special in enumerate(prompt.special or ()) if not special]
        last = texts[-1] if texts else None
        return replace(
            both,
            offsets=_spans_on(prompt.offsets, both.offsets, last),
            words=_words_on(prompt.words, both.words, last),
            special=None
            if both.special is None or prompt.special is None
            else (*prompt.special, *both.special[len(prompt) :]),
        )

    def begun(self, start: int, tokens: Tokens) -> Tokens:
        """The tokens after the one that a decoder starts with, which is special."""
        first = self.of_ids((start,))
        return Tokens(
            first.texts + tokens.texts,
            None if tokens.ids is None else (start, *tokens.ids),
            None if tokens.offsets is None else ((0, 0), *tokens.offsets),
            None if tokens.words is None else (None, *tokens.words),
            None if tokens.special is None else (True, *tokens.special),
        )

    def _spell(self, ids: Sequence[int], special: Sequence[bool]) -> Spelled:
        known = {each: self._piece(each) for each in {*ids}}
        return spell([known[each] for each in ids], self._spelling, special)

    def _piece(self, number: int) -> Piece:
        """What an id stands for; an id that the tokenizer does not have, for its number."""
        try:
            (piece,) = self._tokenizer.convert_ids_to_tokens([number])
        except (LookupError, ValueError):
            piece = None
        piece = str(number) if piece is None else piece
        return self._spelling.read(piece, literal=number in self._literal)

    def _offsets(self, ids: Sequence[int], spelled: Spelled) -> Spans | None:
        try:
            text = str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
        except (AttributeError, LookupError, ValueError):
            return None
        if spelled.whole not in (text, f" {text}"):
            return None
        more = len(text) - len(spelled.whole)  # a space before the first word is not in the text
        return tuple((max(0, start + more), max(0, stop + more)) for start, stop in spelled.spans)


def _special_ids(tokenizer: Any) -> set[int]:
    """Ids that stand for no text; an unknown token stands for some."""
    ids = {*getattr(tokenizer, "all_special_ids", ())}
    unknown = getattr(tokenizer, "unk_token_id", None)
    others = ("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id")
    if unknown in {getattr(tokenizer, name, None) for name in others}:
        return ids
    return ids - {unknown}


def _spans_on(prompt: Spans | None, both: Spans | None, last: int | None) -> Spans | None:
    if prompt is None or both is None:
        return None
    more = 0 if last is None else prompt[last][1] - both[last][1]
    tail = ((start + more, stop + more) if stop else (0, 0) for start, stop in both[len(prompt) :])
    return (*prompt, *tail)


def _words_on(prompt: Words | None, both: Words | None, last: int | None) -> Words | None:
    if prompt is None or both is None:
        return None
    more = 0 if last is None else (prompt[last] or 0) - (both[last] or 0)
    return (*prompt, *(None if each is None else each + more for each in both[len(prompt) :]))
