"""MatcherConfig: the sizes of a matcher."""

from dataclasses import dataclass
from typing import Literal

from regard.errors import InputError
from regard.models.config import Config

__all__ = ["MatcherConfig"]


@dataclass(frozen=True)
class MatcherConfig(Config):
    """The settings of a Matcher.

    `hidden` is the width of both directions of the encoder together, `d_match` that of the keys and
    values of the attention between question and entry. `evidence_weights` and `answer_weights`
    are for answers from triples: what counts how much in ranking them, and in telling that the base
    has no answer; without them the ranking uses weights of its own. `background` are relations that
    a base is thought to have besides its own, so that a relation is as likely in a base of ten
    triples as in the one that these weights were fitted on.
    """

    vocab: int = 4000
    d_embed: int = 128
    hidden: int = 128
    d_match: int = 64
    layers: int = 1
    cell: Literal["gru", "lstm"] = "gru"
    dropout: float = 0.25
    evidence_weights: tuple[float, ...] = ()
    answer_weights: tuple[float, ...] = ()
    background: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse_below(1, "vocab", "d_embed", "hidden", "d_match", "layers")
        self.refuse_unless_rates("dropout")
        if self.hidden % 2:
            raise InputError(
                f"each direction of the encoder has half of hidden, got hidden={self.hidden}; "
                "make it even"
            )

    @property
    def ending(self) -> str:
        """What the model ends in, as a TransformerConfig has it."""
        return "match"
