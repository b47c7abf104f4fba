"""From what a caller gives, tensors or lists of any lengths, to the first tokens of each row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import InputError, ShapeError
from regard.models.generation.hypotheses import PADDING
from regard.models.generation.settings import GenerationSettings

Inputs = Tensor | Sequence[Tensor] | Sequence[Sequence[int]]
Prefix = Tensor | Sequence[int] | Sequence[Sequence[int]]


@dataclass(frozen=True)
class Prompt:
    """What the model begins with, and what each row reads first.

    `tokens` has -1 where a shorter prompt is padded on its left; `forced` are the tokens of
    prefixes longer than the shortest, which are written one by one.
    """

    inputs: Any
    mask: Int[Tensor, "sentence source"] | None
    tokens: Int[Tensor, "sentence length"]
    forced: Int[Tensor, "sentence forced"] | None = None

    @property
    def lengths(self) -> Int[Tensor, " sentence"]:
        """The tokens of each without padding, forced ones too."""
        given = (self.tokens >= 0).sum(dim=1)
        return given if self.forced is None else given + self.ahead

    @property
    def ahead(self) -> Int[Tensor, " sentence"]:
        """How many new tokens of each are forced, and so not its own."""
        if self.forced is None:
            return torch.zeros(len(self.tokens), dtype=torch.long, device=self.tokens.device)
        return (self.forced >= 0).sum(dim=1)

    def readable(self, pad: int) -> Int[Tensor, "sentence length"]:
        """The tokens with the id of padding in place of -1."""
        return (
            self.tokens.clamp(min=0) if pad == 0 else self.tokens.masked_fill(self.tokens < 0, pad)
        )


def prepare(
    inputs: Inputs,
    attention_mask: Tensor | None,
    prefix: Prefix | None,
    settings: GenerationSettings,
    reads_source: bool,
) -> Prompt:
    """The prompt of a generation, checked."""
    pad = settings.pad_token_id or 0
    ids, mask = _joined(inputs, attention_mask, pad, settings)
    if reads_source:
        return _from_source(ids, mask, prefix, settings)
    if ids.dim() != 2 or ids.dtype.is_floating_point:
        raise ShapeError(
            f"expected the ids of one prompt or of a batch, got {ids.dtype} of {tuple(ids.shape)}"
        )
    tokens = _to_the_left(ids, mask)
    if prefix is not None:
        tails = _rows(prefix, len(tokens), tokens.device)
        rows = [torch.cat([row[row >= 0], tail]) for row, tail in zip(tokens, tails, strict=True)]
        tokens = _stacked(rows, PADDING, left=True)
    return Prompt(tokens.clamp(min=0), _mask_of(tokens), tokens)


def _from_source(
    source: Tensor, mask: Tensor | None, prefix: Prefix | None, settings: GenerationSettings
) -> Prompt:
    start = settings.decoder_start_token_id
    start = settings.bos_token_id if start is None else start
    if start is None:
        raise InputError("no token to start with; give decoder_start_token_id")
    count, device = source.shape[0], source.device
    first = torch.full((count, 1), start, dtype=torch.long, device=device)
    if prefix is None:
        return Prompt(source, mask, first)
    tails = _stacked(_rows(prefix, count, device), PADDING, left=False)
    shared = int((tails >= 0).sum(dim=1).min())
    tokens, forced = torch.cat([first, tails[:, :shared]], dim=1), tails[:, shared:]
    return Prompt(source, mask, tokens, forced if forced.shape[1] else None)


def _joined(
    inputs: Inputs, mask: Tensor | None, pad: int, settings: GenerationSettings
) -> tuple[Tensor, Tensor | None]:
    """The inputs as one tensor, and which of its tokens are real if that is not all of them."""
    if not isinstance(inputs, Tensor):
        if mask is not None:
            raise InputError("a list of sequences needs no attention_mask; leave it out")
        rows = [torch.as_tensor(row, dtype=torch.long) for row in inputs]
        _check_rows(rows)
        stacked = _stacked(rows, PADDING, left=False)
        return stacked.masked_fill(stacked < 0, pad), _mask_of(stacked)
    inputs = inputs[None] if inputs.dim() == 1 else inputs
    if inputs.shape[0] == 0 or inputs.shape[1] == 0:
        raise InputError(f"nothing to go on from: the inputs are empty, {tuple(inputs.shape)}")
    if mask is None:
        return inputs, _guessed(inputs, settings)
    if mask.shape != inputs.shape[:2]:
        raise ShapeError(
            f"attention_mask of {tuple(mask.shape)} does not fit inputs of {tuple(inputs.shape)}"
        )
    if not mask.any(dim=1).all():
        empty = int((~mask.any(dim=1)).nonzero()[0])
        raise InputError(f"input {empty} is empty: its attention_mask is 0 throughout")
    return inputs, None if mask.all() else mask.long()


def _guessed(inputs: Tensor, settings: GenerationSettings) -> Tensor | None:
    """As in transformers: tokens of padding are padding unless they also end a sentence."""
    pad = settings.pad_token_id
    if pad is None or pad in settings.eos_token_id or inputs.dtype.is_floating_point:
        return None
    real = inputs != pad
    return None if real.all() or not real.any(dim=1).all() else real.long()


def _to_the_left(ids: Tensor, mask: Tensor | None) -> Int[Tensor, "sentence length"]:
    """The prompts with their padding, as -1, before them."""
    if mask is None:
        return ids.long()
    order = mask.long().argsort(dim=1, stable=True)
    tokens = ids.long().masked_fill(mask == 0, PADDING).gather(1, order)
    return tokens[:, int((tokens < 0).sum(dim=1).min()) :]


def _mask_of(tokens: Tensor) -> Int[Tensor, "sentence length"] | None:
    real = tokens >= 0
    return None if real.all() else real.long()


def _rows(prefix: Prefix, count: int, device: torch.device) -> list[Tensor]:
    """A prefix for each sentence; one alone is that of all."""
    several = prefix.dim() == 2 if isinstance(prefix, Tensor) else _is_nested(prefix)
    rows = (
        [torch.as_tensor(row, dtype=torch.long, device=device) for row in prefix] if several else []
    )
    if not several:
        rows = [torch.as_tensor(prefix, dtype=torch.long, device=device)] * count
    if len(rows) != count:
        raise ShapeError(f"expected one prefix, or one for each of {count} inputs, got {len(rows)}")
    return rows


def _is_nested(prefix: Sequence[Any]) -> bool:
    return len(prefix) > 0 and not isinstance(prefix[0], int)


def _check_rows(rows: list[Tensor]) -> None:
    if not rows:
        raise InputError("nothing to go on from: the list of inputs is empty")
    for index, row in enumerate(rows):
        if row.dim() != 1:
            raise ShapeError(f"expected a list of 1-D tensors, got {tuple(row.shape)} at {index}")
        if len(row) == 0:
            raise InputError(f"input {index} is empty; give it at least one token")


def _stacked(rows: list[Tensor], fill: int, *, left: bool) -> Tensor:
    longest = max(len(row) for row in rows)
    whole = rows[0].new_full((len(rows), longest), fill)
    for index, row in enumerate(rows):
        if len(row):
            whole[index, slice(longest - len(row), None) if left else slice(len(row))] = row
    return whole
