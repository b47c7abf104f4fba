"""The hypotheses of a search: token sequences that are being generated, one in each batch row."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

PADDING = -1  # stands before a shorter prompt, and after the end of a shorter sequence


@dataclass(frozen=True)
class Hypotheses:
    """The token sequences that the rows of the batch hold at one step of decoding.

    `ids` begins with the prompt or the start token. `row_history` has the batch row that each
    hypothesis was in at each step, which differs from its row now wherever beams changed places.
    `beam_scores` is the sum of log-probabilities of the new tokens; for a finished hypothesis it is
    divided by length ** length_penalty. `input_index` is the input that a row was generated for,
    and `sample_index` counts the samples drawn for the same input.
    """

    ids: Int[Tensor, "row length"]
    row_history: Int[Tensor, "row step"]
    beam_scores: Float[Tensor, " row"]
    input_index: Int[Tensor, " row"]
    sample_index: Int[Tensor, " row"]

    @staticmethod
    def from_prompts(prompts: Int[Tensor, "row length"]) -> "Hypotheses":
        """One hypothesis for each input, without any new token."""
        count, device = prompts.shape[0], prompts.device
        inputs = torch.arange(count, device=device)
        no_steps = torch.empty(count, 0, dtype=torch.long, device=device)
        zeros = torch.zeros(count, device=device)
        return Hypotheses(prompts, no_steps, zeros, inputs, torch.zeros_like(inputs))

    @property
    def count(self) -> int:
        """The number of hypotheses, which is the number of batch rows."""
        return self.ids.shape[0]

    @property
    def new_tokens(self) -> int:
        """The number of tokens that each hypothesis has generated so far."""
        return self.row_history.shape[1]

    @property
    def all_rows(self) -> Int[Tensor, " row"]:
        """The indices of all rows, in order."""
        return torch.arange(self.count, device=self.ids.device)

    def extend(
        self,
        rows: Int[Tensor, " new_row"],
        tokens: Int[Tensor, " new_row"],
        beam_scores: Float[Tensor, " new_row"],
    ) -> "Hypotheses":
        """The hypotheses that continue these rows with these tokens."""
        return Hypotheses(
            torch.cat([self.ids[rows], tokens[:, None]], dim=1),
            torch.cat([self.row_history[rows], rows[:, None]], dim=1),
            beam_scores,
            self.input_index[rows],
            self.sample_index[rows],
        )

    def select(self, rows: Int[Tensor, " new_row"]) -> "Hypotheses":
        """The hypotheses of these rows, in this order."""
        return Hypotheses(
            self.ids[rows],
            self.row_history[rows],
            self.beam_scores[rows],
            self.input_index[rows],
            self.sample_index[rows],
        )


@dataclass(frozen=True)
class SearchState:
    """All that the decoding loop knows: hypotheses that continue, and those that are finished.

    `finished` has one entry for each step at which some ended. `best_finished` holds the scores of
    the best finished hypotheses of each input; only beam search needs it, to know when to stop.
    """

    active: Hypotheses
    finished: tuple[Hypotheses, ...] = ()
    best_finished: Float[Tensor, "sentence beam"] | None = None
