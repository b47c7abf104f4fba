"""What a generation gives: the sequences, their scores, and the rows that they went through."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.models.generation.hypotheses import PADDING, Drafts

_Ids = Int[Tensor, " length"]


@dataclass(frozen=True, eq=False)
class GeneratedSequences(Sequence[_Ids]):
    """The sequences that a model wrote, several for each input next to each other, best first.

    Indexing gives the ids of one, without padding. `sequences` holds all, padded; `real` tells
    which of its tokens are no padding. `scores` are log-probability / length ** length_penalty.
    `beam_indices` are those of transformers: the input and beam that each new token came from.
    `rows` is the row of the batch that a sequence was at each step of decoding: with the first,
    the prompt or start token was read. Both are -1 after the end.
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
            return [self[place] for place in range(*index.indices(len(self)))]
        return self.sequences[index][self.real[index]]

    def __iter__(self) -> Iterator[_Ids]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        count, length = self.sequences.shape
        return f"GeneratedSequences({count} sequences, {length} tokens at most)"


@dataclass(frozen=True)
class Harvest:
    """How finished drafts become the result: how many of each sentence, and in which order."""

    sentences: int
    each: int
    pad: int
    beams: int = 1

    def __call__(
        self, finished: Sequence[Drafts], prompt: Int[Tensor, "sentence prompt"]
    ) -> GeneratedSequences:
        """The best of each sentence, or in the order in which they were drawn."""
        pool = _joined([*finished, self._nothing(prompt)])
        order = self._order(pool)
        ids, path = pool.ids[order], pool.path[order]
        ids = ids[:, : int((ids >= 0).any(dim=0).nonzero().max()) + 1]
        path = path[:, : ids.shape[1] - prompt.shape[1]]
        return GeneratedSequences(
            sequences=ids.masked_fill(ids < 0, self.pad),
            real=ids >= 0,
            scores=pool.scores[order],
            beam_indices=self._beams(path),
            rows=path.t().contiguous(),
        )

    def _order(self, pool: Drafts) -> Int[Tensor, " sequence"]:
        """Where in the pool the sequences of the result are."""
        keys = pool.copies if self.beams == 1 else -pool.scores
        order = keys.argsort(stable=True)
        order = order[pool.sentences[order].argsort(stable=True)]
        sentences = pool.sentences[order]
        counts = torch.bincount(sentences, minlength=self.sentences)
        starts = counts.cumsum(0) - counts
        places = torch.arange(len(order), device=order.device) - starts[sentences]
        return order[places < self.each]

    def _nothing(self, prompt: Int[Tensor, "sentence prompt"]) -> Drafts:
        """What stands where a sentence has fewer hypotheses than asked for: its prompt alone."""
        nothing = Drafts.of(prompt).select(
            torch.arange(self.sentences, device=prompt.device).repeat_interleave(self.each)
        )
        lowest = torch.full_like(nothing.scores, -torch.inf)
        last = torch.full_like(nothing.copies, self.each)
        return Drafts(nothing.ids, nothing.path, lowest, nothing.sentences, last)

    def _beams(self, path: Int[Tensor, "sequence step"]) -> Int[Tensor, "sequence step"]:
        """The input and beam of each step; sentences that left have moved the rows, not these."""
        count = torch.arange(len(path), device=path.device)[:, None]
        if self.beams == 1:
            return torch.where(path < 0, PADDING, count)
        beam = path % self.beams
        beam[:, :1] = 0
        return torch.where(path < 0, PADDING, count // self.each * self.beams + beam)


def _joined(parts: Sequence[Drafts]) -> Drafts:
    """All drafts, those that are shorter padded."""
    length = max(part.ids.shape[1] for part in parts)
    steps = max(part.new for part in parts)
    ids = [F.pad(part.ids, (0, length - part.ids.shape[1]), value=PADDING) for part in parts]
    path = [F.pad(part.path, (0, steps - part.new), value=PADDING) for part in parts]
    rest = [[getattr(part, name) for part in parts] for name in ("scores", "sentences", "copies")]
    return Drafts(*(torch.cat(pieces) for pieces in (ids, path, *rest)))
