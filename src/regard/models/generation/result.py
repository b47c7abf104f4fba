"""The result of a generation: sequences, their scores, and their batch rows at each step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import PADDING, Hypotheses

_Ids = Int[Tensor, " length"]


@dataclass(frozen=True, eq=False)
class GeneratedSequences(Sequence[_Ids]):
    """The sequences that a model generated, several for each input next to each other, best first.

    Indexing gives the ids of one sequence without padding. `sequences` holds all of them, padded,
    and `real` is True where they are not padding. `scores` are log-probability / length **
    length_penalty. `beam_indices` are those of transformers: the input and beam that each new token
    came from. `rows` is the batch row of each sequence at each step of decoding, where the first
    step read the prompt or the start token. Both are -1 after the end of a sequence.
    """

    sequences: Int[Tensor, "sequence length"]
    real: Bool[Tensor, "sequence length"]
    scores: Float[Tensor, " sequence"]
    beam_indices: Int[Tensor, "sequence step"]
    rows: Int[Tensor, "step sequence"]

    def __len__(self) -> int:
        return self.sequences.shape[0]

    @overload
    def __getitem__(self, index: int) -> _Ids: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Ids]: ...
    def __getitem__(self, index: int | slice) -> _Ids | list[_Ids]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return self.sequences[index][self.real[index]]

    def __iter__(self) -> Iterator[_Ids]:
        return (self[number] for number in range(len(self)))

    def __repr__(self) -> str:
        count, length = self.sequences.shape
        return f"GeneratedSequences({count} sequences, {length} tokens at most)"


@dataclass(frozen=True)
class SequenceCollector:
    """Turns finished hypotheses into the result: `per_input` sequences for each of the inputs."""

    inputs: int
    per_input: int
    pad_token: int
    beams: int = 1

    def __call__(
        self, finished: Sequence[Hypotheses], prompts: Int[Tensor, "sentence prompt"]
    ) -> GeneratedSequences:
        """The best sequences of each input; samples keep the order in which they were drawn."""
        pool = concatenate([*finished, self._fallbacks(prompts)])
        order = self._order(pool)
        ids, row_history = pool.ids[order], pool.row_history[order]
        ids = ids[:, : int((ids >= 0).any(dim=0).nonzero().max()) + 1]
        row_history = row_history[:, : ids.shape[1] - prompts.shape[1]]
        return GeneratedSequences(
            sequences=ids.masked_fill(ids < 0, self.pad_token),
            real=ids >= 0,
            scores=pool.beam_scores[order],
            beam_indices=self._beam_indices(row_history),
            rows=row_history.t().contiguous(),
        )

    def _order(self, pool: Hypotheses) -> Int[Tensor, " sequence"]:
        """The places of the result's sequences in the pool, input by input, best first."""
        keys = pool.sample_index if self.beams == 1 else -pool.beam_scores
        # Two stable sorts: by score, then by input, which keeps the order by score within an input.
        order = keys.argsort(stable=True)
        order = order[pool.input_index[order].argsort(stable=True)]
        inputs = pool.input_index[order]
        counts = torch.bincount(inputs, minlength=self.inputs)
        starts = counts.cumsum(0) - counts
        rank = torch.arange(len(order), device=order.device) - starts[inputs]
        return order[rank < self.per_input]

    def _fallbacks(self, prompts: Int[Tensor, "sentence prompt"]) -> Hypotheses:
        """Hypotheses of the prompt alone, for inputs with fewer than `per_input` finished ones.

        Their score is -inf, so that they are chosen last.
        """
        inputs = torch.arange(self.inputs, device=prompts.device)
        empty = Hypotheses.from_prompts(prompts).select(inputs.repeat_interleave(self.per_input))
        lowest = torch.full_like(empty.beam_scores, -torch.inf)
        last = torch.full_like(empty.sample_index, self.per_input)
        return Hypotheses(empty.ids, empty.row_history, lowest, empty.input_index, last)

    def _beam_indices(
        self, row_history: Int[Tensor, "sequence step"]
    ) -> Int[Tensor, "sequence step"]:
        """The input and beam of each step as one number, input * beams + beam.

        Rows move up when the inputs before them are done; the beam within an input does not.
        """
        sequence = torch.arange(len(row_history), device=row_history.device)[:, None]
        if self.beams == 1:
            return torch.where(row_history < 0, PADDING, sequence)
        beam = row_history % self.beams
        beam[:, :1] = 0  # at the first step each input has one row
        first_beam = sequence // self.per_input * self.beams
        return torch.where(row_history < 0, PADDING, first_beam + beam)


def concatenate(parts: Sequence[Hypotheses]) -> Hypotheses:
    """All hypotheses in one batch, the shorter ones padded on the right."""
    length = max(part.ids.shape[1] for part in parts)
    steps = max(part.new_tokens for part in parts)
    ids = [F.pad(part.ids, (0, length - part.ids.shape[1]), value=PADDING) for part in parts]
    history = [
        F.pad(part.row_history, (0, steps - part.new_tokens), value=PADDING) for part in parts
    ]
    per_row = ("beam_scores", "input_index", "sample_index")
    others = [[getattr(part, name) for part in parts] for name in per_row]
    return Hypotheses(*(torch.cat(pieces) for pieces in (ids, history, *others)))
