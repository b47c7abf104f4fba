"""Turn a tokenizer's pieces into readable text: byte-level, SentencePiece and WordPiece forms."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from regard.unicode import HAN_CHARACTER

# A token as a tokenizer writes it. Bytes if it stands for bytes, maybe only a part of a character.
Piece = str | bytes

_BYTE_PIECE = re.compile("<0x([0-9A-F]{2})>")
_PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
# byte-level tokenizers write printable bytes as themselves, others as the characters from 256 on
_BYTES = {chr(byte): byte for byte in _PRINTABLE}
_BYTES |= {
    chr(256 + index): byte
    for index, byte in enumerate(b for b in range(256) if b not in _PRINTABLE)
}
_CHARACTERS = {byte: character for character, byte in _BYTES.items()}


@dataclass(frozen=True)
class Spelling:
    """How a tokenizer writes its pieces, found out by asking it to join a few.

    `byte_level`: each character of a piece is a byte (Ġlove). `fallback`: a byte has a piece of
    its own (<0xE6>). `continued`: a piece with ## continues a word. `apart`: pieces are joined
    with spaces between them.
    """

    byte_level: bool = False
    fallback: bool = False
    continued: bool = False
    apart: bool = False

    @classmethod
    def of(cls, tokenizer: Any) -> "Spelling":
        """The spelling of a tokenizer that can join pieces; all False for others."""
        # Every tokenizer can join pieces that it does not have itself; how it reads these shows its
        # way of writing, without knowing its class.
        byte_level_piece = "".join(_CHARACTERS[byte] for byte in " 我".encode())
        byte_pieces = [f"<0x{byte:02X}>" for byte in "我".encode()]
        return cls(
            byte_level=_join_pieces(tokenizer, ["a", byte_level_piece]) == "a 我",
            fallback=_join_pieces(tokenizer, ["a", *byte_pieces]).endswith("我"),
            continued=_join_pieces(tokenizer, ["a", "##b"]) == "ab",
            apart=_join_pieces(tokenizer, ["a", "b"]) == "a b",
        )

    def read(self, piece: Piece, literal: bool) -> Piece:
        """The bytes that a piece stands for, else the piece itself; added tokens are literal."""
        if isinstance(piece, bytes):
            return piece
        if self.fallback and (match := _BYTE_PIECE.fullmatch(piece)):
            return bytes.fromhex(match[1])
        if self.byte_level and not literal and all(character in _BYTES for character in piece):
            return bytes(_BYTES[character] for character in piece)
        return piece


def _join_pieces(tokenizer: Any, pieces: list[str]) -> str:
    """The text that the tokenizer makes of the pieces; empty if it cannot join them."""
    decoder = getattr(getattr(tokenizer, "backend_tokenizer", None), "decoder", None)
    join = getattr(tokenizer, "convert_tokens_to_string", getattr(decoder, "decode", None))
    try:
        return str(join(pieces)) if join else ""
    except (KeyError, ValueError, TypeError):  # pieces that it does not have
        return ""


@dataclass(frozen=True)
class SpelledTokens:
    """The texts to show, the whole text that they spell, and each token's characters in it."""

    texts: tuple[str, ...]
    whole: str
    spans: tuple[tuple[int, int], ...]

    def words(self, special: Sequence[bool]) -> tuple[int | None, ...]:
        """The word index of each token: words end at spaces and punctuation; each Han is a word."""
        words: list[int | None] = []
        word, before = -1, None
        for index, (start, _) in enumerate(self.spans):
            if special[index]:
                words.append(None)
                before = None
                continue
            if before is None or self._begins_word(before, start):
                word += 1
            words.append(word)
            before = index
        return tuple(words)

    def _begins_word(self, before: int, start: int) -> bool:
        """True if the token that starts at this character begins a word after token `before`."""
        first, stop = self.spans[before]
        if start < stop or start >= len(self.whole) or self.whole[first:stop] == " ":
            return False  # within a character, or after a mark that stands alone
        if self.texts[before].endswith("</w>"):
            return True
        return boundary(self.whole[start - 1], self.whole[start])


def boundary(left: str, right: str) -> bool:
    """True if a word ends between two characters."""
    kinds = unicodedata.category(left), unicodedata.category(right)
    if kinds[1][0] == "M" or "Cf" in kinds:  # accents, and characters that join emoji
        return False
    separates = any(one.isspace() or HAN_CHARACTER.match(one) for one in (left, right))
    return separates or any(kind[0] in "PS" for kind in kinds)


def spell(pieces: Sequence[Piece], spelling: Spelling, special: Sequence[bool]) -> SpelledTokens:
    """The pieces as text; a character spread over three pieces is 我[1/3], 我[2/3], 我[3/3].

    Special tokens are shown as they are written, and stand for no characters of the whole text.
    """
    pairs = zip(pieces, special, strict=True)
    pieces = [
        piece.decode(errors="replace") if isinstance(piece, bytes) and is_special else piece
        for piece, is_special in pairs
    ]
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    whole: list[str] = []
    length = 0  # characters of the whole text so far
    for start, stop in _byte_runs(pieces):
        piece = pieces[start]
        if special[start]:
            texts.append(str(piece))
            spans.append((0, 0))
            continue
        if isinstance(piece, str):
            space, plain = _unmark(piece, spelling)
            space = space if whole else ""
            shown, covered, text = [piece], [(len(space), len(space + plain))], space + plain
        else:
            shown, covered, text = _spell_bytes(pieces[start:stop])  # type: ignore[arg-type]
        texts += shown
        spans += [(length + first, length + last) for first, last in covered]
        whole.append(text)
        length += len(text)
    return SpelledTokens(tuple(map(visible, texts)), "".join(whole), tuple(spans))


def _byte_runs(pieces: Sequence[Piece]) -> Iterator[tuple[int, int]]:
    """Runs of pieces that may share a character: a run ends before a byte that begins one."""
    start = 0
    for stop, piece in enumerate([*pieces[1:], ""], start=1):
        # in UTF-8 the second and later bytes of a character are 0x80 to 0xBF
        continues = isinstance(piece, bytes) and piece[:1] and 0x80 <= piece[0] < 0xC0
        if not continues or isinstance(pieces[start], str):
            if start < len(pieces):
                yield start, stop
            start = stop


def _unmark(piece: str, spelling: Spelling) -> tuple[str, str]:
    """The space that the tokenizer puts before a piece, and the piece without its markers."""
    plain = piece.replace("▁", " ")
    if spelling.continued and plain.startswith("##"):
        return "", plain[2:]
    return " " * spelling.apart, plain


def _spell_bytes(run: Sequence[bytes]) -> tuple[list[str], list[tuple[int, int]], str]:
    """The texts of byte pieces, the characters that each covers, and the text of all of them."""
    if len(run) == 1:
        with suppress(UnicodeDecodeError):
            text = run[0].decode()
            return [text], [(0, len(text))], text
    owners = [index for index, piece in enumerate(run) for _ in piece]  # the piece of each byte
    texts, whole = [""] * len(run), ""
    spans: list[tuple[int, int] | None] = [None] * len(run)
    position = 0
    for character, size in _decode_characters(b"".join(run)):
        parts = sorted(set(owners[position : position + size]))
        for index, owner in enumerate(parts, start=1):
            share = f"[{index}/{len(parts)}]" if len(parts) > 1 else ""
            texts[owner] += character + share
            spans[owner] = ((spans[owner] or (len(whole), 0))[0], len(whole) + 1)
        whole += character if len(character) == 1 else "\ufffd"
        position += size
    return texts, [span or (0, 0) for span in spans], whole


def _decode_characters(data: bytes) -> Iterable[tuple[str, int]]:
    """Each character with its number of bytes; a byte that belongs to none as <0xE6>."""
    position = 0
    while position < len(data):
        lead = data[position]
        # the first byte of a character in UTF-8 says how many bytes it has
        size = 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)
        try:
            yield data[position : position + size].decode(), size
            position += size
        except UnicodeDecodeError:
            yield f"<0x{lead:02X}>", 1
            position += 1


def visible(text: str) -> str:
    r"""The text with invisible characters written out: \n, \u200b.

    >>> visible("a\n")
    'a\\n'
    """
    if text.isprintable() and unicodedata.category(text[:1] or " ") != "Mn":
        return text  # the usual case, which is fast
    # accents and joiners are invisible only where there is nothing that they could change
    alone = all(unicodedata.category(one) in ("Cf", "Mn") for one in text)
    return "".join(_escape(one) if alone or _is_hidden(one) else one for one in text)


def _is_hidden(character: str) -> bool:
    """True for control characters, line separators, and those that change the text's direction."""
    is_control = unicodedata.bidirectional(character) in _BIDI_CONTROLS
    return is_control or unicodedata.category(character) in ("Cc", "Zl", "Zp")


# bidirectional classes of the characters that change the direction of text
_BIDI_CONTROLS = {*["LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"]}


def _escape(character: str) -> str:
    r"""The character as an escape sequence, such as \n."""
    return character.encode("unicode_escape").decode("ascii")
