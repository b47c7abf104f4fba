"""How good translations are: BLEU and chrF by sacrebleu."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.errors import InputError, RegardError


@dataclass(frozen=True)
class Scored:
    """BLEU (Papineni et al. 2002) and chrF (Popović 2015) of a corpus, and how they were made."""

    bleu: float
    chrf: float
    signature: str


def score(outputs: Sequence[str], references: Sequence[str], words: str = "13a") -> Scored:
    """The scores of translations beside their references; `words` is sacrebleu's tokenizer."""
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
    bleu, chrf = BLEU(tokenize=words), CHRF()
    kept = [list(references)]
    return Scored(
        bleu.corpus_score(list(outputs), kept).score,
        chrf.corpus_score(list(outputs), kept).score,
        str(bleu.get_signature()),
    )
