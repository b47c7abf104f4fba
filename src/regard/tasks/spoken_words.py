"""Tokens with times joined to words, as Whisper does it.

    " she"  " had"  " your"  "."      words begin with a space, and a mark joins the word before it:
    0-.28   .28-.6  .6-1.04  1.04-2   she 0-.28, had .28-.6, your. .6-2

Chinese and Japanese put no spaces between words: there each token is a word.
"""

import string
from collections.abc import Sequence
from typing import Any

from regard.types import TimedWord
from regard.unicode import HAN_OR_KANA_CHARACTER

__all__ = ["group_words"]

_OPENING = "\"'“¡¿([{-"
_CLOSING = "\"'.。,，!！?？:：”)]}、"
_BROKEN = "�"  # what a decoder writes for a part of a character

Span = tuple[float, float]


def group_words(tokenizer: Any, ids: Sequence[int], spans: Sequence[Span]) -> list[TimedWord]:
    """The words that tokens spell, from the start of the first to the end of the last token."""
    words: list[TimedWord] = []
    for text, (start, end) in _whole_characters(tokenizer, ids, spans):
        bare = text.strip()
        begins = text.startswith(" ") or (len(bare) == 1 and bare in string.punctuation)
        if words and not begins and not _has_no_spaces(bare + words[-1].text):
            words[-1] = TimedWord(words[-1].text + text, words[-1].start, end)
        else:
            words.append(TimedWord(text, start, end))
    merged = _merge_marks(words)
    return [word._replace(text=word.text.strip()) for word in merged if word.text.strip()]


def _whole_characters(
    tokenizer: Any, ids: Sequence[int], spans: Sequence[Span]
) -> list[tuple[str, Span]]:
    """The texts of tokens; those that share one character are joined."""
    pieces: list[tuple[str, Span]] = []
    open_ids: list[int] = []
    start = 0.0
    for number, (begin, end) in zip(ids, spans, strict=True):
        start = start if open_ids else begin
        open_ids.append(number)
        text = tokenizer.decode(open_ids, clean_up_tokenization_spaces=False)
        if _BROKEN not in text or number == ids[-1]:
            pieces.append((text, (start, end)))
            open_ids = []
    return pieces


def _has_no_spaces(text: str) -> bool:
    """True for text in a script that is written without spaces between words."""
    return HAN_OR_KANA_CHARACTER.search(text) is not None


def _merge_marks(words: Sequence[TimedWord]) -> list[TimedWord]:
    """The words with opening marks joined to the next one and closing marks to the one before."""
    merged: list[TimedWord] = []
    for word in words:
        before = merged[-1] if merged else None
        if before is not None and (_opens(before.text) or _closes(word.text)):
            merged[-1] = TimedWord(before.text + word.text, before.start, word.end)
        else:
            merged.append(word)
    return merged


def _opens(text: str) -> bool:
    """True for a mark that belongs to the next word."""
    return text.startswith(" ") and text.strip() in _OPENING


def _closes(text: str) -> bool:
    """True for a mark that belongs to the word before it."""
    return bool(text) and text in _CLOSING
