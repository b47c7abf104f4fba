"""What is being written: the rows of the batch, each with its tokens, score and way."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

PADDING = -1  # before a shorter prompt, and after the end of a shorter sequence


@dataclass(frozen=True)
class Drafts:
    """The hypotheses that the rows of the batch hold; `path` is the row that each was at each step.

    `ids` begins with the prompt or the start token. A score is the sum of log-probabilities, and
    of a finished draft, that over its length ** length_penalty.
    """

    ids: Int[Tensor, "row length"]
    path: Int[Tensor, "row step"]
    scores: Float[Tensor, " row"]
    sentences: Int[Tensor, " row"]
    copies: Int[Tensor, " row"]

    @staticmethod
    def of(prompt: Int[Tensor, "row length"]) -> "Drafts":
        """One draft for each sentence, nothing written yet."""
        count, device = prompt.shape[0], prompt.device
        everyone = torch.arange(count, device=device)
        nowhere = torch.empty(count, 0, dtype=torch.long, device=device)
        zeros = torch.zeros(count, device=device)
        return Drafts(prompt, nowhere, zeros, everyone, torch.zeros_like(everyone))

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.ids.shape[0]

    @property
    def new(self) -> int:
        """How many tokens each has written."""
        return self.path.shape[1]

    def grown(
        self,
        rows: Int[Tensor, " new_row"],
        tokens: Int[Tensor, " new_row"],
        scores: Float[Tensor, " new_row"],
    ) -> "Drafts":
        """The drafts that these tokens make of these rows."""
        return Drafts(
            torch.cat([self.ids[rows], tokens[:, None]], dim=1),
            torch.cat([self.path[rows], rows[:, None]], dim=1),
            scores,
            self.sentences[rows],
            self.copies[rows],
        )

    def select(self, rows: Int[Tensor, " new_row"]) -> "Drafts":
        """These rows in this order."""
        return Drafts(
            self.ids[rows],
            self.path[rows],
            self.scores[rows],
            self.sentences[rows],
            self.copies[rows],
        )


@dataclass(frozen=True)
class Board:
    """All that the loop knows: the drafts that go on, and those that are finished, part by part.

    `bank` holds the scores of the best finished drafts of each sentence, where beams need it.
    """

    drafts: Drafts
    finished: tuple[Drafts, ...] = ()
    bank: Float[Tensor, "sentence beam"] | None = None
