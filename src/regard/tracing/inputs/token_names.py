"""Name tokens with a tokenizer: those of texts that it encoded, or ids that a model generated."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from regard.tracing.inputs.encodings import EncodedText, Spans, Text, Words
from regard.tracing.inputs.spelling import Piece, SpelledTokens, Spelling, spell
from regard.types import Tokens


class TokenNamer:
    """Makes `Tokens` of ids; without a tokenizer the text of a token is its id."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._spelling = Spelling.of(tokenizer)
        self._special = _special_ids(tokenizer)
        added: dict[str, int] = getattr(tokenizer, "get_added_vocab", dict)()
        self._literal = {*added.values()} | self._special

    def name_ids(self, ids: Sequence[int]) -> Tokens:
        """The tokens of ids alone; words are found by spaces and punctuation.

        Offsets refer to the text that the tokenizer decodes from the ids. They are None if the
        pieces do not spell that text.
        """
        if self._tokenizer is None:
            return Tokens(tuple(map(str, ids)), tuple(ids))
        special = tuple(number in self._special for number in ids)
        spelled = self._spell(ids, special)
        offsets, words = self._offsets(ids, spelled), spelled.words(special)
        return Tokens(spelled.texts, tuple(ids), offsets, words, special)

    def name_texts(
        self, encoding: Mapping[str, Any], texts: Sequence[Text], *, spelled: bool = True
    ) -> list[Tokens]:
        """The tokens of each text of a batch that the tokenizer encoded, without padding.

        With spelled=False the texts are the ids, and words are left out: looking up each token
        takes a few per cent of the time of a small model.
        """
        encoded = (EncodedText.of(encoding, index, text) for index, text in enumerate(texts))
        return [self._name_text(text, spelled=spelled) for text in encoded]

    def _name_text(self, encoded: EncodedText, *, spelled: bool) -> Tokens:
        """The tokens of one text that the tokenizer encoded."""
        special = tuple(
            number in self._special or added
            for number, added in zip(encoded.ids, encoded.added, strict=True)
        )
        if not spelled:
            texts = tuple(map(str, encoded.ids))
            return Tokens(texts, encoded.ids, encoded.offsets, special=special, named=False)
        spelling = self._spell(encoded.ids, special)
        words = encoded.words
        if words is None or len({*words} - {None}) == 1:  # such a tokenizer does not split words
            words = spelling.words(special)
        return Tokens(spelling.texts, encoded.ids, encoded.offsets, words, special)

    def append_ids(self, prompt: Tokens, ids: Sequence[int]) -> Tokens:
        """The tokens of the prompt and of the ids that the model generated after it.

        The offsets and words of the new tokens are counted on from the end of the prompt.
        """
        both = self.name_ids((*(prompt.ids or ()), *ids))
        ordinary = [index for index, special in enumerate(prompt.special or ()) if not special]
        last = ordinary[-1] if ordinary else None
        return replace(
            both,
            offsets=_extend_offsets(prompt.offsets, both.offsets, last),
            words=_extend_words(prompt.words, both.words, last),
            special=None
            if both.special is None or prompt.special is None
            else (*prompt.special, *both.special[len(prompt) :]),
        )

    def prepend_start(self, start: int, tokens: Tokens) -> Tokens:
        """The tokens with the start token of a decoder, which is special, in front of them."""
        first = self.name_ids((start,))
        return Tokens(
            first.texts + tokens.texts,
            None if tokens.ids is None else (start, *tokens.ids),
            None if tokens.offsets is None else ((0, 0), *tokens.offsets),
            None if tokens.words is None else (None, *tokens.words),
            None if tokens.special is None else (True, *tokens.special),
        )

    def _spell(self, ids: Sequence[int], special: Sequence[bool]) -> SpelledTokens:
        """The ids as text; each id is looked up once, as asking a tokenizer is slow."""
        pieces = {number: self._piece(number) for number in {*ids}}
        return spell([pieces[number] for number in ids], self._spelling, special)

    def _piece(self, number: int) -> Piece:
        """The piece of an id; the id itself as text if the tokenizer does not have it."""
        try:
            (piece,) = self._tokenizer.convert_ids_to_tokens([number])
        except (LookupError, ValueError):
            piece = None
        piece = str(number) if piece is None else piece
        return self._spelling.read(piece, literal=number in self._literal)

    def _offsets(self, ids: Sequence[int], spelled: SpelledTokens) -> Spans | None:
        """The characters of each token in the decoded text; None if the pieces spell another."""
        try:
            text = str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
        except (AttributeError, LookupError, ValueError):
            return None
        if spelled.whole not in (text, f" {text}"):
            return None
        shift = len(text) - len(spelled.whole)  # a space before the first word is not in the text
        return tuple((max(0, start + shift), max(0, stop + shift)) for start, stop in spelled.spans)


def _special_ids(tokenizer: Any) -> set[int]:
    """The ids of special tokens, which stand for no text; an unknown token stands for some."""
    ids = {*getattr(tokenizer, "all_special_ids", ())}
    unknown = getattr(tokenizer, "unk_token_id", None)
    others = ("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id")
    if unknown in {getattr(tokenizer, name, None) for name in others}:
        return ids
    return ids - {unknown}


def _extend_offsets(prompt: Spans | None, both: Spans | None, last: int | None) -> Spans | None:
    """The offsets of the prompt, then those of the new tokens, moved to the prompt's counting.

    `last` is the last token of the prompt that is not special: there both countings are compared.
    """
    if prompt is None or both is None:
        return None
    shift = 0 if last is None else prompt[last][1] - both[last][1]
    new = both[len(prompt) :]
    tail = ((start + shift, stop + shift) if stop else (0, 0) for start, stop in new)
    return (*prompt, *tail)


def _extend_words(prompt: Words | None, both: Words | None, last: int | None) -> Words | None:
    """The word indices of the prompt, then those of the new tokens, in the prompt's counting."""
    if prompt is None or both is None:
        return None
    shift = 0 if last is None else (prompt[last] or 0) - (both[last] or 0)
    return (*prompt, *(None if word is None else word + shift for word in both[len(prompt) :]))
