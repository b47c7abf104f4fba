"""From inputs of any form, tensors or lists of any lengths, to the first tokens of each row."""

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
    """The inputs of the model, and the tokens that its decoder reads first.

    `inputs` and `mask` go to the model's `begin`. `tokens` has -1 where a shorter prompt is padded
    on its left. Where prefixes differ in length, as many tokens as the shortest has are part of
    `tokens`, and `forced` holds the others, which are generated one by one as forced tokens.
    """

    inputs: Any
    mask: Int[Tensor, "sentence source"] | None
    tokens: Int[Tensor, "sentence length"]
    forced: Int[Tensor, "sentence forced"] | None = None

    @property
    def lengths(self) -> Int[Tensor, " sentence"]:
        """The number of tokens of each prompt, without padding and with forced ones."""
        lengths = (self.tokens >= 0).sum(dim=1)
        return lengths if self.forced is None else lengths + self.forced_count

    @property
    def forced_count(self) -> Int[Tensor, " sentence"]:
        """The number of forced tokens of each prompt."""
        if self.forced is None:
            return torch.zeros(len(self.tokens), dtype=torch.long, device=self.tokens.device)
        return (self.forced >= 0).sum(dim=1)

    def model_ids(self, pad: int) -> Int[Tensor, "sentence length"]:
        """The tokens as a model can read them: with the id of padding in place of -1."""
        if pad == 0:
            return self.tokens.clamp(min=0)
        return self.tokens.masked_fill(self.tokens < 0, pad)


def prepare_prompt(
    inputs: Inputs,
    attention_mask: Tensor | None,
    prefix: Prefix | None,
    settings: GenerationSettings,
    reads_source: bool,
) -> Prompt:
    """The prompt of a generation, checked: a source with a start token, or a text to continue."""
    pad = settings.pad_token_id or 0
    ids, mask = _join_inputs(inputs, attention_mask, pad, settings)
    if reads_source:
        return _source_prompt(ids, mask, prefix, settings)
    if ids.dim() != 2 or ids.dtype.is_floating_point:
        raise ShapeError(
            f"expected the ids of one prompt or of a batch, got {ids.dtype} of {tuple(ids.shape)}"
        )
    tokens = _move_padding_left(ids, mask)
    if prefix is not None:
        tails = _prefix_rows(prefix, len(tokens), tokens.device)
        rows = [torch.cat([row[row >= 0], tail]) for row, tail in zip(tokens, tails, strict=True)]
        tokens = _pad_rows(rows, left=True)
    return Prompt(tokens.clamp(min=0), _padding_mask(tokens), tokens)


def _source_prompt(
    source: Tensor, mask: Tensor | None, prefix: Prefix | None, settings: GenerationSettings
) -> Prompt:
    """The prompt of a model that reads a source: the start token, then the prefix."""
    start = settings.decoder_start_token_id
    start = settings.bos_token_id if start is None else start
    if start is None:
        raise InputError("no token to start with; give decoder_start_token_id")
    count, device = source.shape[0], source.device
    first = torch.full((count, 1), start, dtype=torch.long, device=device)
    if prefix is None:
        return Prompt(source, mask, first)
    prefixes = _pad_rows(_prefix_rows(prefix, count, device), left=False)
    shortest = int((prefixes >= 0).sum(dim=1).min())
    tokens = torch.cat([first, prefixes[:, :shortest]], dim=1)
    forced = prefixes[:, shortest:]
    return Prompt(source, mask, tokens, forced if forced.shape[1] else None)


def _join_inputs(
    inputs: Inputs, mask: Tensor | None, pad: int, settings: GenerationSettings
) -> tuple[Tensor, Tensor | None]:
    """The inputs as one tensor, and a mask that is 1 for real tokens, None if all are real."""
    if not isinstance(inputs, Tensor):
        if mask is not None:
            raise InputError("a list of sequences needs no attention_mask; leave it out")
        rows = [torch.as_tensor(row, dtype=torch.long) for row in inputs]
        _check_rows(rows)
        padded = _pad_rows(rows, left=False)
        return padded.masked_fill(padded < 0, pad), _padding_mask(padded)
    inputs = inputs[None] if inputs.dim() == 1 else inputs
    if inputs.shape[0] == 0 or inputs.shape[1] == 0:
        raise InputError(f"nothing to go on from: the inputs are empty, {tuple(inputs.shape)}")
    if mask is None:
        return inputs, _mask_from_pad_token(inputs, settings)
    if mask.shape != inputs.shape[:2]:
        raise ShapeError(
            f"attention_mask of {tuple(mask.shape)} does not fit inputs of {tuple(inputs.shape)}"
        )
    if not mask.any(dim=1).all():
        empty = int((~mask.any(dim=1)).nonzero()[0])
        raise InputError(f"input {empty} is empty: its attention_mask is 0 throughout")
    return inputs, None if mask.all() else mask.long()


def _mask_from_pad_token(inputs: Tensor, settings: GenerationSettings) -> Tensor | None:
    """A mask inferred from the pad token, as in transformers: unless it also ends sentences."""
    pad = settings.pad_token_id
    if pad is None or pad in settings.eos_token_id or inputs.dtype.is_floating_point:
        return None
    real = inputs != pad
    return None if real.all() or not real.any(dim=1).all() else real.long()


def _move_padding_left(ids: Tensor, mask: Tensor | None) -> Int[Tensor, "sentence length"]:
    """The prompts with all their padding, as -1, on the left, and no more of it than needed."""
    if mask is None:
        return ids.long()
    order = mask.long().argsort(dim=1, stable=True)  # padding first, the tokens in their order
    tokens = ids.long().masked_fill(mask == 0, PADDING).gather(1, order)
    return tokens[:, int((tokens < 0).sum(dim=1).min()) :]


def _padding_mask(tokens: Tensor) -> Int[Tensor, "sentence length"] | None:
    """1 for tokens and 0 for padding (-1); None if there is no padding."""
    real = tokens >= 0
    return None if real.all() else real.long()


def _prefix_rows(prefix: Prefix, count: int, device: torch.device) -> list[Tensor]:
    """A prefix for each of `count` inputs; a single one is used for all."""
    is_nested = prefix.dim() == 2 if isinstance(prefix, Tensor) else _is_nested(prefix)
    if is_nested:
        rows = [torch.as_tensor(row, dtype=torch.long, device=device) for row in prefix]
    else:
        rows = [torch.as_tensor(prefix, dtype=torch.long, device=device)] * count
    if len(rows) != count:
        raise ShapeError(f"expected one prefix, or one for each of {count} inputs, got {len(rows)}")
    return rows


def _is_nested(prefix: Sequence[Any]) -> bool:
    """True for a list of sequences, False for a list of ids."""
    return len(prefix) > 0 and not isinstance(prefix[0], int)


def _check_rows(rows: list[Tensor]) -> None:
    """Raise an error unless there are rows, each a 1-D tensor with at least one token."""
    if not rows:
        raise InputError("nothing to go on from: the list of inputs is empty")
    for index, row in enumerate(rows):
        if row.dim() != 1:
            raise ShapeError(f"expected a list of 1-D tensors, got {tuple(row.shape)} at {index}")
        if len(row) == 0:
            raise InputError(f"input {index} is empty; give it at least one token")


def _pad_rows(rows: list[Tensor], *, left: bool) -> Tensor:
    """Rows of different lengths as one tensor, padded with -1 on the left or on the right."""
    longest = max(len(row) for row in rows)
    padded = rows[0].new_full((len(rows), longest), PADDING)
    for index, row in enumerate(rows):
        if len(row):
            padded[index, slice(longest - len(row), None) if left else slice(len(row))] = row
    return padded
