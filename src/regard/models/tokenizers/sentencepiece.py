"""Reading SentencePiece models without its library: a protobuf of pieces with scores."""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors

from regard.errors import FileError

HIDDEN = "\ufdd0"  # marks a piece that only the other side uses: no text contains this character

_UNKNOWN_PENALTY = 10.0  # of SentencePiece: an unknown character is this much worse than the worst
_NORMAL, _UNKNOWN, _CONTROL, _USER, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_UNIGRAM, _BPE = 1, 2


@dataclass
class Pieces:
    """The content of a SentencePiece model."""

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
    found = Pieces()
    try:
        for number, value in _fields(file.read_bytes()):
            part = dict(_fields(value)) if number in (1, 2, 3) else {}
            if number == 1:
                score = struct.unpack("<f", part.get(2, b"\0\0\0\0"))[0]
                found.pieces.append((part[1].decode(), score, part.get(3, _NORMAL)))
            elif number == 2:
                found.model_type = part.get(3, _UNIGRAM)
            elif number == 3:
                found.charsmap = part.get(2, b"")
                found.adds_prefix = bool(part.get(3, 1))
                found.trims = bool(part.get(4, 1))
    except FileNotFoundError:
        raise FileError(f"no file {file}; expected a SentencePiece model") from None
    except (IndexError, KeyError, ValueError, TypeError, struct.error):
        found.pieces = []
    if not found.pieces:
        raise FileError(f"{file} is no whole SentencePiece model; fetch it again")
    return found


def marian_backend(file: Path, vocabulary: Mapping[str, int]) -> tokenizers.Tokenizer:
    """One side of Marian: pieces and scores of its .spm, ids of the vocabulary that both share.

    A piece of the other side alone keeps its id but is never found in a text, except a single
    character, which Marian looks up where SentencePiece does not know it.
    """
    if not vocabulary:
        raise FileError(f"no vocab.json beside {file}; a Marian folder has one")
    found = read_pieces(file)
    scores = {p: score for p, score, kind in found.pieces if kind in (_NORMAL, _USER)}
    lowest = min(scores.values()) - _UNKNOWN_PENALTY
    ordered = sorted(vocabulary, key=vocabulary.__getitem__)
    if [vocabulary[piece] for piece in ordered] != list(range(len(ordered))):
        raise FileError(f"the ids of the vocab.json beside {file} have gaps; expected 0, 1, 2, …")
    special = [each for each in ordered if each in _MARIAN or re.fullmatch(">>.+<<", each)]
    found_here = {*scores, *special, *(piece for piece in ordered if len(piece) == 1)}
    rows = [
        (piece if piece in found_here else HIDDEN + piece, scores.get(piece, lowest))
        for piece in ordered
    ]
    backend = tokenizers.Tokenizer(models.Unigram(rows, vocabulary["<unk>"], False))
    _set_text_processing(backend, found)
    backend.add_special_tokens([tokenizers.AddedToken(each) for each in special])
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", vocabulary["</s>"])]
    )
    return backend


_MARIAN = ("</s>", "<unk>", "<pad>", "<s>")


def piece_backend(file: Path) -> tokenizers.Tokenizer:
    """A tokenizer with the pieces and ids of one SentencePiece model, unigram or BPE."""
    found = read_pieces(file)
    unknown = found.named(_UNKNOWN)
    spells = bool(found.named(_BYTE))
    if found.model_type == _BPE:
        model: Any = models.BPE(
            {piece: number for number, (piece, _, _) in enumerate(found.pieces)},
            _merges(found),
            unk_token=unknown[0] if unknown else None,
            fuse_unk=True,
            byte_fallback=spells,
        )
    elif found.model_type == _UNIGRAM:
        number = [kind for _, _, kind in found.pieces].index(_UNKNOWN) if unknown else None
        rows = [(piece, score) for piece, score, _ in found.pieces]
        model = models.Unigram(rows, number, spells)
    else:
        raise FileError(f"{file} is a SentencePiece model of words; expected unigram or BPE")
    backend = tokenizers.Tokenizer(model)
    _set_text_processing(backend, found)
    backend.add_special_tokens(found.named(_CONTROL, _UNKNOWN))
    return backend


def _merges(found: Pieces) -> list[tuple[str, str]]:
    """Every way to join two pieces into a third, ordered by the rank of the third."""
    rank = {p: i for i, (p, _, kind) in enumerate(found.pieces) if kind in (_NORMAL, _USER)}
    order = sorted(rank, key=lambda p: (-found.pieces[rank[p]][1], rank[p]))
    merges = []
    for piece in order:
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        whole = [(a, b) for a, b in halves if a in rank and b in rank]
        merges += sorted(whole, key=lambda pair: (rank[pair[0]], rank[pair[1]]))
    return merges


def _set_text_processing(backend: tokenizers.Tokenizer, found: Pieces) -> None:
    """Set SentencePiece's normalizer, its ▁ for the space, and the decoder that reverses both."""
    steps: list[Any] = [normalizers.Precompiled(found.charsmap)] if found.charsmap else []
    if found.trims:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    backend.normalizer = normalizers.Sequence(steps)
    prefix = "always" if found.adds_prefix else "never"
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prefix)
    back: list[Any] = [decoders.Replace(HIDDEN, ""), decoders.Replace("▁", " ")]
    back += [decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*back, *([decoders.Strip(" ", 1, 0)] * found.adds_prefix)])


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: number and value, bytes where it has a length."""
    place = 0
    while place < len(data):
        key, place = _number(data, place)
        wire = key & 7
        if wire == 0:
            value, place = _number(data, place)
        else:
            size, place = (8 if wire == 1 else 4, place) if wire != 2 else _number(data, place)
            if wire not in (1, 2, 5) or place + size > len(data):
                raise ValueError("not a protobuf message")
            value, place = data[place : place + size], place + size  # type: ignore[assignment]
        yield key >> 3, value


def _number(data: bytes, place: int) -> tuple[int, int]:
    """A variable-length number and the place behind it."""
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
