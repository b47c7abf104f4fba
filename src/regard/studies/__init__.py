"""Studies: what runs a watched model several times to learn something about it."""

from regard.studies.alignment import (
    Alignment,
    align,
    aligned,
    alignment_layer,
    diagonal,
    layer_alignments,
    peaks,
)
from regard.studies.faithfulness import (
    AttentionEffect,
    ErasureCurves,
    Faithfulness,
    RankAgreement,
    Rankings,
    attention_effect,
    faithfulness,
)
from regard.studies.interventions import (
    Comparison,
    compare_edit,
    mask_future,
    set_temperature,
)
from regard.studies.knockout import KnockOuts, knock_outs
from regard.studies.leaks import Leak, causal_leak, padding_leak
from regard.studies.repeated_sequences import Copying, Repeating, Repetition, repeats
from regard.studies.sentence_pairs import Sentence, read_sentences

__all__ = [
    "Alignment",
    "AttentionEffect",
    "Comparison",
    "Copying",
    "ErasureCurves",
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
    "attention_effect",
    "causal_leak",
    "compare_edit",
    "diagonal",
    "faithfulness",
    "knock_outs",
    "layer_alignments",
    "mask_future",
    "padding_leak",
    "peaks",
    "read_sentences",
    "repeats",
    "set_temperature",
]
