"""Metrics of translation quality, BLEU and chrF, computed by sacrebleu."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import InputError, RegardError


@dataclass(frozen=True)
class TranslationMetrics:
    """Corpus BLEU (Papineni et al. 2002) and chrF (Popović 2015).

    `signature` is sacrebleu's own record of its version and settings, which BLEU depends on.
    """

    bleu: float
    chrf: float
    signature: str


def translation_metrics(
    outputs: Sequence[str], references: Sequence[str], tokenizer: str = "13a"
) -> TranslationMetrics:
    """BLEU and chrF of translations against one reference each.

    `tokenizer` is the name of the sacrebleu tokenizer that splits both into words.
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise RegardError(
            "scoring translations needs sacrebleu; install it with: pip install 'regard[train]'"
        ) from error
    if len(outputs) != len(references) or not outputs:
        raise InputError(
            f"expected as many translations as references and at least one, got {len(outputs)} "
            f"and {len(references)}"
        )
    bleu, chrf = BLEU(tokenize=tokenizer), CHRF()
    reference_sets = [list(references)]  # sacrebleu takes several references for each output
    return TranslationMetrics(
        bleu.corpus_score(list(outputs), reference_sets).score,
        chrf.corpus_score(list(outputs), reference_sets).score,
        str(bleu.get_signature()),
    )
