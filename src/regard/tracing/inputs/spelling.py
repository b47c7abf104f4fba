"""How a tokenizer spells its pieces: bytes, marks, and characters spread over several pieces."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from regard.unicode import HAN_CHARACTER

Piece = str | bytes  # bytes where a piece stands for some, which may be a part of a character

_FALLBACK = re.compile("<0x([0-9A-F]{2})>")
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
# byte-level tokenizers write printable bytes as themselves, others as the characters from 256 on
_BYTES = {chr(byte): byte for byte in _PRINTABLE}
_BYTES |= {
    chr(256 + index): byte
    for index, byte in enumerate(each for each in range(256) if each not in _PRINTABLE)
}
_CHARACTERS = {byte: character for character, byte in _BYTES.items()}


@dataclass(frozen=True)
class Spelling:
    """How pieces are written, found out by asking the tokenizer to join some.

    `byte_level`: each character of a piece is a byte (Ġlove). `fallback`: a byte has a piece of
    its own (<0xE6>). `continued`: ## goes on with a word. `apart`: pieces are joined by spaces.
    """

    byte_level: bool = False
    fallback: bool = False
    continued: bool = False
    apart: bool = False

    @classmethod
    def of(cls, tokenizer: Any) -> "Spelling":
        """The spelling of any tokenizer that can join pieces; nothing is known of others."""
        known = "".join(_CHARACTERS[byte] for byte in " 我".encode())
        bytes_of = [f"<0x{byte:02X}>" for byte in "我".encode()]
        return cls(
            byte_level=_joined(tokenizer, ["a", known]) == "a 我",
            fallback=_joined(tokenizer, ["a", *bytes_of]).endswith("我"),
            continued=_joined(tokenizer, ["a", "##b"]) == "ab",
            apart=_joined(tokenizer, ["a", "b"]) == "a b",
        )

    def read(self, piece: Piece, literal: bool) -> Piece:
        """The bytes that a piece stands for, or the piece; a literal one was added as it is."""
        if isinstance(piece, bytes):
            return piece
        if self.fallback and (found := _FALLBACK.fullmatch(piece)):
            return bytes.fromhex(found[1])
        if self.byte_level and not literal and all(each in _BYTES for each in piece):
            return bytes(_BYTES[each] for each in piece)
        return piece


def _joined(tokenizer: Any, pieces: list[str]) -> str:
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    join = getattr(tokenizer, "convert_tokens_to_string", getattr(decoder, "decode", None))
    try:
        return str(join(pieces)) if join else ""
    except (KeyError, ValueError, TypeError):  # pieces that it does not have
        return ""


@dataclass(frozen=True)
class Spelled:
    """The texts to show, the text that they spell together, and which of its characters each."""

    texts: tuple[str, ...]
    whole: str
    spans: tuple[tuple[int, int], ...]

    def words(self, special: Sequence[bool]) -> tuple[int | None, ...]:
        """The number of the word of each piece by spaces, marks, punctuation; Han one by one."""
        words: list[int | None] = []
        word, before = -1, None
        for index, (start, _) in enumerate(self.spans):
            if special[index]:
                words.append(None)
                before = None
                continue
            if before is None or self._begins(before, start):
                word += 1
            words.append(word)
            before = index
        return tuple(words)

    def _begins(self, before: int, start: int) -> bool:
        first, stop = self.spans[before]
        if start < stop or start >= len(self.whole) or self.whole[first:stop] == " ":
            return False  # within a character, or after a mark that stands alone
        if self.texts[before].endswith("</w>"):
            return True
        return boundary(self.whole[start - 1], self.whole[start])


def boundary(left: str, right: str) -> bool:
    """Whether a word ends between two characters."""
    kinds = unicodedata.category(left), unicodedata.category(right)
    if kinds[1][0] == "M" or "Cf" in kinds:  # accents, and what joins emoji
        return False
    apart = any(each.isspace() or HAN_CHARACTER.match(each) for each in (left, right))
    return apart or any(kind[0] in "PS" for kind in kinds)


def spell(pieces: Sequence[Piece], spelling: Spelling, special: Sequence[bool]) -> Spelled:
    """The pieces as text: a character that is spread over three is 我[1/3], 我[2/3], 我[3/3].

    Special ones stand for no characters of the whole text.
    """
    pairs = zip(pieces, special, strict=True)
    pieces = [
        each.decode(errors="replace") if isinstance(each, bytes) and is_special else each
        for each, is_special in pairs
    ]
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    whole: list[str] = []
    place = 0
    for start, stop in _segments(pieces):
        piece = pieces[start]
        if special[start]:
            texts.append(str(piece))
            spans.append((0, 0))
            continue
        if isinstance(piece, str):
            before, plain = _plain(piece, spelling)
            before = before if whole else ""
            shown, covered, more = [piece], [(len(before), len(before + plain))], before + plain
        else:
            shown, covered, more = _characters(pieces[start:stop])  # type: ignore[arg-type]
        texts += shown
        spans += [(place + first, place + last) for first, last in covered]
        whole.append(more)
        place += len(more)
    return Spelled(tuple(map(visible, texts)), "".join(whole), tuple(spans))


def _segments(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """Runs of pieces that may share characters: a byte that begins one ends what was before."""
    start = 0
    for stop, piece in enumerate([*pieces[1:], ""], start=1):
        goes_on = isinstance(piece, bytes) and piece[:1] and 0x80 <= piece[0] < 0xC0
        if not goes_on or isinstance(pieces[start], str):
            if start < len(pieces):
                yield start, stop
            start = stop


def _plain(piece: str, spelling: Spelling) -> tuple[str, str]:
    """The space before a piece that the tokenizer puts there itself, and the piece unmarked."""
    plain = piece.replace("▁", " ")
    if spelling.continued and plain.startswith("##"):
        return "", plain[2:]
    return " " * spelling.apart, plain


def _characters(run: Sequence[bytes]) -> tuple[list[str], list[tuple[int, int]], str]:
    """The texts of pieces of bytes, the characters that each covers, and all characters."""
    if len(run) == 1:
        with suppress(UnicodeDecodeError):
            text = run[0].decode()
            return [text], [(0, len(text))], text
    owners = [index for index, piece in enumerate(run) for _ in piece]
    texts, whole = [""] * len(run), ""
    spans: list[tuple[int, int] | None] = [None] * len(run)
    place = 0
    for character, size in _decoded(b"".join(run)):
        parts = sorted(set(owners[place : place + size]))
        for index, owner in enumerate(parts, start=1):
            spread = f"[{index}/{len(parts)}]" if len(parts) > 1 else ""
            texts[owner] += character + spread
            spans[owner] = ((spans[owner] or (len(whole), 0))[0], len(whole) + 1)
        whole += character if len(character) == 1 else "\ufffd"
        place += size
    return texts, [each or (0, 0) for each in spans], whole


def _decoded(data: bytes) -> Iterable[tuple[str, int]]:
    """Each character with its number of bytes; a byte that is no part of one as <0xE6>."""
    place = 0
    while place < len(data):
        lead = data[place]
        size = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
        try:
            yield data[place : place + size].decode(), size
            place += size
        except UnicodeDecodeError:
            yield f"<0x{lead:02X}>", 1
            place += 1


def visible(text: str) -> str:
    r"""The text with what nobody would see written out: \n, \u200b.

    >>> visible("a\n")
    'a\\n'
    """
    if text.isprintable() and unicodedata.category(text[:1] or " ") != "Mn":
        return text  # most are
    alone = all(unicodedata.category(each) in ("Cf", "Mn") for each in text)
    return "".join(_escaped(each) if alone or _is_hidden(each) else each for each in text)


def _is_hidden(character: str) -> bool:
    turns = unicodedata.bidirectional(character) in _TURNS
    return turns or unicodedata.category(character) in ("Cc", "Zl", "Zp")


_TURNS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}  # turn what follows round


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
