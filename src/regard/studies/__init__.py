"""Runs a watched model to learn something of it."""

from regard.studies.alignment import (
    Alignment,
    align,
    aligned,
    alignment_layer,
    diagonal,
    layer_alignments,
    peaks,
)
from regard.studies.sentences import Sentence, read_sentences

__all__ = [
    "Alignment",
    "Sentence",
    "align",
    "aligned",
    "alignment_layer",
    "diagonal",
    "layer_alignments",
    "peaks",
    "read_sentences",
]
