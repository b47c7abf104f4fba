"""What every way of choosing tokens shares: the rules, the ends, and the score of what is done."""

from dataclasses import dataclass, replace
from math import inf
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import InputError, NotFiniteError
from regard.models.generation.hypotheses import Board, Drafts
from regard.models.generation.logits_processors import Rules
from regard.models.generation.stopping import Ends
from regard.models.generation.topk import largest, log_totals

Logits = Float[Tensor, "row vocab"]


@runtime_checkable
class Strategy(Protocol):
    """A way of choosing: from the board and the logits of its drafts to the next board."""

    def __call__(self, logits: Logits, board: Board) -> Board:
        """The board after every draft that goes on has one more token."""
        ...


@dataclass(frozen=True)
class LengthPenalty:
    """The score of a finished draft: its log-probability / length ** power.

    A sentence whose first tokens were forced counts those from `ahead` on.
    """

    power: float
    ahead: Int[Tensor, " sentence"] | None = None

    def __call__(
        self,
        scores: Float[Tensor, " row"],
        sentences: Int[Tensor, " row"],
        length: int | Int[Tensor, " row"],
    ) -> Float[Tensor, " row"]:
        """The scores of drafts that have written `length` tokens."""
        if self.ahead is None:
            return scores / length**self.power
        return scores / (length - self.ahead[sentences]).clamp(min=1) ** self.power


@dataclass(frozen=True)
class Course:
    """What a strategy obeys, whatever it chooses."""

    rules: Rules
    ends: Ends
    penalty: LengthPenalty

    def follow(self, board: Board, grown: Drafts, over: Bool[Tensor, " row"]) -> Board:
        """The board on which these drafts go on, and those that are over are finished."""
        if not over.any():
            return replace(board, drafts=grown)
        going = grown.select((~over).nonzero().squeeze(1))
        done = self.finished(grown.select(over.nonzero().squeeze(1)))
        return replace(board, drafts=going, finished=(*board.finished, done))

    def finished(self, drafts: Drafts) -> Drafts:
        """The drafts with their final scores."""
        scores = self.penalty(drafts.scores, drafts.sentences, drafts.new)
        return replace(drafts, scores=scores)


def check_finite(totals: Float[Tensor, " row"], drafts: Drafts) -> None:
    """Refuse logits whose sum, or largest, is no number: they would be followed without a word."""
    if not totals.isfinite().all():
        row = int((~totals.isfinite()).nonzero()[0])
        raise NotFiniteError(
            f"the logits of row {row} (input {int(drafts.sentences[row])}) are not finite at step "
            f"{drafts.new}; look for NaN or infinity in the model's weights and inputs"
        )


def check_choice(best: Float[Tensor, " row"], sentences: Int[Tensor, " row"], step: int) -> None:
    """Refuse a row all of whose tokens are forbidden."""
    if (best == -inf).any():
        sentence = int(sentences[best == -inf][0])
        raise InputError(
            f"every token is forbidden to input {sentence} at step {step}; ask for less by "
            "bad_words_ids, suppress_tokens, no_repeat_ngram_size and the like"
        )


def everyone(drafts: Drafts) -> Int[Tensor, " row"]:
    """Every row, in order."""
    return torch.arange(drafts.rows, device=drafts.ids.device)


@dataclass(frozen=True)
class Greedy:
    """The likeliest token at every step."""

    course: Course

    def __call__(self, logits: Logits, board: Board) -> Board:
        """The board after each row has taken its likeliest token."""
        drafts = board.drafts
        totals = log_totals(logits)
        check_finite(totals, drafts)
        self.course.rules(logits, totals, drafts)
        best, tokens = (part.squeeze(1) for part in largest(logits, 1))
        check_choice(best, drafts.sentences, drafts.new)
        rows = everyone(drafts)
        grown = drafts.grown(rows, tokens, drafts.scores + (best - totals))
        return self.course.follow(board, grown, self.course.ends(drafts, rows, tokens))
