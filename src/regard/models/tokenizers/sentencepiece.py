"""Reading SentencePiece models without their library, as tokenizers of the tokenizers library.

A .spm or .model file is a protobuf message with a list of pieces, each with its score (a
log-probability in a unigram model, the negative rank in BPE) and its type, and with settings of the
normalizer.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from regard.errors import FileError

# The prefix of a piece that only the other side of a Marian model uses. It is a noncharacter of
# Unicode, so that the piece is never found in a text.
HIDDEN = "\ufdd0"

# SentencePiece scores an unknown character this much below the lowest score of a piece.
_UNKNOWN_PENALTY = 10.0
# Types of pieces, and types of models, in sentencepiece_model.proto.
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_UNIGRAM, _BPE = 1, 2
_VARINT_BITS = 70  # protobuf writes a number of 64 bits as at most ten bytes of seven bits
_LONGEST_PIECE = 4096  # characters; SentencePiece itself makes pieces of at most 16


@dataclass
class Pieces:
    """The content of a SentencePiece model: its pieces, and the settings of its normalizer."""

    pieces: list[tuple[str, float, int]] = field(default_factory=list)  # piece, score, type
    model_type: int = _UNIGRAM
    charsmap: bytes = b""
    adds_prefix: bool = True
    trims: bool = True

    def named(self, *types: int) -> list[str]:
        """The pieces of some types."""
        return [piece for piece, _, kind in self.pieces if kind in types]


def read_pieces(file: Path) -> Pieces:
    """The model of a .spm or .model file.

    The fields are those of sentencepiece_model.proto: 1 a piece (1 text, 2 score, 3 type),
    2 the trainer (3 its model type), 3 the normalizer (2 charsmap, 3 prefix, 4 trimming).
    """
    content = Pieces()
    try:
        for number, value in _fields(file.read_bytes()):
            part = dict(_fields(value)) if number in (1, 2, 3) else {}
            if number == 1:
                score = struct.unpack("<f", part.get(2, b"\0\0\0\0"))[0]
                content.pieces.append((_piece_text(part[1]), score, int(part.get(3, _NORMAL))))
            elif number == 2:
                content.model_type = part.get(3, _UNIGRAM)
            elif number == 3:
                content.charsmap = part.get(2, b"")
                content.adds_prefix = bool(part.get(3, 1))
                content.trims = bool(part.get(4, 1))
    except FileNotFoundError:
        raise FileError(f"no file {file}; expected a SentencePiece model") from None
    except (IndexError, KeyError, ValueError, TypeError, struct.error):
        content.pieces = []
    if not content.pieces:
        raise FileError(f"{file} is no whole SentencePiece model; fetch it again")
    return content


def _piece_text(data: bytes) -> str:
    """The text of a piece; a ValueError if it is too long to be one."""
    if len(data) > _LONGEST_PIECE:
        raise ValueError("a piece of too many characters")
    return data.decode()


def marian_backend(file: Path, vocabulary: Mapping[str, int]) -> tokenizers.Tokenizer:
    """The tokenizer of one side of Marian: pieces and scores of its .spm, ids of vocab.json.

    Both sides may share vocab.json. A piece that only the other side has keeps its id but is never
    found in a text, except single characters: Marian looks up those that SentencePiece does not
    know.
    """
    if not vocabulary:
        raise FileError(f"no vocab.json beside {file}; a Marian folder has one")
    content = read_pieces(file)
    scores = {p: score for p, score, kind in content.pieces if kind in (_NORMAL, _USER)}
    lowest = min(scores.values()) - _UNKNOWN_PENALTY
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[piece] for piece in ordered] != list(range(len(ordered))):
        raise FileError(f"the ids of the vocab.json beside {file} have gaps; expected 0, 1, 2, …")
    # >>fr<< and the like name the target language in models with several.
    special = [p for p in ordered if p in _MARIAN_SPECIAL or re.fullmatch(">>.+<<", p)]
    own_pieces = {*scores, *special, *(piece for piece in ordered if len(piece) == 1)}
    scored_pieces = [
        (piece if piece in own_pieces else HIDDEN + piece, scores.get(piece, lowest))
        for piece in ordered
    ]
    backend = tokenizers.Tokenizer(models.Unigram(scored_pieces, vocabulary["<unk>"], False))
    _set_text_processing(backend, content)
    backend.add_special_tokens([tokenizers.AddedToken(token) for token in special])
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", vocabulary["</s>"])]
    )
    return backend


_MARIAN_SPECIAL = ("</s>", "<unk>", "<pad>", "<s>")


def piece_backend(file: Path) -> tokenizers.Tokenizer:
    """A tokenizer with the pieces and ids of one SentencePiece model, unigram or BPE."""
    content = read_pieces(file)
    unknown = content.named(_UNKNOWN)
    has_byte_tokens = bool(content.named(_BYTE))
    if content.model_type == _BPE:
        model: Any = models.BPE(
            {piece: number for number, (piece, _, _) in enumerate(content.pieces)},
            _merges(content),
            unk_token=unknown[0] if unknown else None,
            fuse_unk=True,
            byte_fallback=has_byte_tokens,
        )
    elif content.model_type == _UNIGRAM:
        unknown_id = [kind for _, _, kind in content.pieces].index(_UNKNOWN) if unknown else None
        scored_pieces = [(piece, score) for piece, score, _ in content.pieces]
        model = models.Unigram(scored_pieces, unknown_id, has_byte_tokens)
    else:
        raise FileError(f"{file} is a SentencePiece model of words; expected unigram or BPE")
    backend = tokenizers.Tokenizer(model)
    _set_text_processing(backend, content)
    backend.add_special_tokens(content.named(_CONTROL, _UNKNOWN))
    return backend


def _merges(content: Pieces) -> list[tuple[str, str]]:
    """The BPE merges, which a SentencePiece file does not store.

    They are all ways to join two pieces into a third, ordered by the score of the third.
    """
    rank = {p: i for i, (p, _, kind) in enumerate(content.pieces) if kind in (_NORMAL, _USER)}
    order = sorted(rank, key=lambda p: (-content.pieces[rank[p]][1], rank[p]))
    merges = []
    for piece in order:
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [(left, right) for left, right in halves if left in rank and right in rank]
        merges += sorted(known, key=lambda pair: (rank[pair[0]], rank[pair[1]]))
    return merges


def _set_text_processing(backend: tokenizers.Tokenizer, content: Pieces) -> None:
    """Set SentencePiece's normalizer, its ▁ for the space, and the decoder that reverses both."""
    steps: list[Any] = [normalizers.Precompiled(content.charsmap)] if content.charsmap else []
    if content.trims:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    backend.normalizer = normalizers.Sequence(steps)
    prefix = "always" if content.adds_prefix else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prefix)
    decoding: list[Any] = [decoders.Replace(HIDDEN, ""), decoders.Replace("▁", " ")]
    decoding += [decoders.ByteFallback(), decoders.Fuse()]
    if content.adds_prefix:
        decoding.append(decoders.Strip(" ", 1, 0))
    backend.decoder = decoders.Sequence(decoding)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message as (number, value); values are int or bytes.

    The wire types are 0 (varint), 1 (8 bytes), 2 (bytes after their length) and 5 (4 bytes).
    """
    offset = 0
    while offset < len(data):
        key, offset = _read_varint(data, offset)
        wire = key & 7
        if wire == 0:
            value, offset = _read_varint(data, offset)
        else:
            fixed_size = 8 if wire == 1 else 4
            size, offset = _read_varint(data, offset) if wire == 2 else (fixed_size, offset)
            if wire not in (1, 2, 5) or offset + size > len(data):
                raise ValueError("not a protobuf message")
            value, offset = data[offset : offset + size], offset + size  # type: ignore[assignment]
        yield key >> 3, value


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """The variable-length number at an offset, 7 bits per byte, and the offset after it."""
    value = shift = 0
    while shift < _VARINT_BITS:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset
    raise ValueError("a number of too many bytes")
