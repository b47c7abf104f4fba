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
from regard.studies.causality import Leak, causal_leak, padding_leak
from regard.studies.faithfulness import Curves, Faithfulness, RankAgreement, Rankings, faithfulness
from regard.studies.knockout import KnockOuts, knock_outs
from regard.studies.repeats import Copying, Repeating, Repetition, repeats
from regard.studies.sentences import Sentence, read_sentences

__all__ = [
    "Alignment",
    "Copying",
    "Curves",
    "Faithfulness",
    "KnockOuts",
    "Leak",
    "RankAgreement",
    "Rankings",
    "Repeating",
    "Repetition",
    "Sentence",
    "align",
    "aligned",
    "alignment_layer",
    "causal_leak",
    "diagonal",
    "faithfulness",
    "knock_outs",
    "layer_alignments",
    "padding_leak",
    "peaks",
    "read_sentences",
    "repeats",
]
