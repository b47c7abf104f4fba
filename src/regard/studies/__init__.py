"""Studies: run a watched model several times, changed or on many texts, and compare.

A study takes a model, its processor and inputs, and returns a value with numbers::

    >>> import regard
    >>> from regard.studies import knock_outs
    >>> model = regard.from_pretrained("en-zh-transformer")
    >>> result = knock_outs(model, model.tokenizer, "I love you", target="我爱你", sites="*cross*")
    >>> result.objective, result.texts, len(result.rise)  # two layers of cross-attention
    ('generated text', 1, 2)
    >>> all(rise.shape == (4,) for rise in result.rise.values())  # the rise of the loss by head
    True

Which file holds what:

- `knockout`: the loss without each head; `interventions`: any edit of attention, before and after;
- `faithfulness`: whether rankings of words explain the output, tested by erasing words;
- `alignment`, `sentence_pairs`: attention of translators against word links drawn by hand;
- `induction`: random tokens that come twice, the test for induction heads;
- `leaks`: outputs that change by later tokens or by padding, though they should not;
- `survey`: the numbers of every head over a whole corpus, streamed to a file.

Most studies start with the `CleanRun` of an example (package `attribution`), which holds the
unchanged output and the number of it that is compared, and run variants of the example in batches
through `tracing.inputs.example.forward`. Thresholds and sentences are `diagnosis`'s business.
"""

from regard.studies.alignment import (
    AlignmentResult,
    alignment_by_layer,
    diagonal_baseline,
    evaluate_alignment,
    find_alignment_layer,
    peak_accuracy,
    word_attention,
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
from regard.studies.induction import CopyWeights, InductionTest, RepeatOptions, induction_test
from regard.studies.interventions import (
    Comparison,
    compare_edit,
    mask_future,
    set_temperature,
)
from regard.studies.knockout import KnockOuts, knock_outs
from regard.studies.leaks import Leak, causal_leak, padding_leak
from regard.studies.sentence_pairs import SentencePair, read_sentence_pairs

__all__ = [
    "AlignmentResult",
    "AttentionEffect",
    "Comparison",
    "CopyWeights",
    "ErasureCurves",
    "Faithfulness",
    "InductionTest",
    "KnockOuts",
    "Leak",
    "RankAgreement",
    "Rankings",
    "RepeatOptions",
    "SentencePair",
    "alignment_by_layer",
    "attention_effect",
    "causal_leak",
    "compare_edit",
    "diagonal_baseline",
    "evaluate_alignment",
    "faithfulness",
    "find_alignment_layer",
    "induction_test",
    "knock_outs",
    "mask_future",
    "padding_leak",
    "peak_accuracy",
    "read_sentence_pairs",
    "set_temperature",
    "word_attention",
]
