"""Let a model generate, and find the row of the batch that each kept hypothesis had at each step.

In beam search the hypotheses of an example change rows between steps. The attention of the best
hypothesis can be put together only if its row at each step is known.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.errors import InputError


@dataclass(frozen=True, eq=False)
class GeneratedIds:
    """The ids of each example: the prompt that the decoder read first, and those it generated.

    `rows` is the same as in `TokenLabels`: the row of the batch that an example had at each step,
    or None if each example kept its own row throughout.
    """

    prompt: tuple[tuple[int, ...], ...]
    produced: tuple[tuple[int, ...], ...]
    rows: Int[Tensor, "step example"] | None


def generate_ids(
    model: nn.Module, arguments: Mapping[str, Any], settings: Mapping[str, Any], batch: int
) -> GeneratedIds:
    """Let the model generate, and keep the best hypothesis of each example of the batch."""
    generate: Any = model.generate
    details = {"return_dict_in_generate": True}
    result = generate(**arguments, **settings, **(details if _accepts(generate, *details) else {}))
    sequences = getattr(result, "sequences", result)
    if len(sequences) != batch:
        raise InputError(
            f"capture keeps one hypothesis of each example, got {len(sequences)} for {batch}; "
            "leave num_return_sequences at one"
        )
    length = _prompt_length(arguments, settings, result, sequences)
    rows = _batch_rows(result, sequences[:, length:], _end_ids(model, settings))
    steps = sequences.shape[1] - length
    counts = [steps] * batch if rows is None else (rows >= 0).sum(0).tolist()
    return GeneratedIds(
        tuple(tuple(sequence[:length].tolist()) for sequence in sequences),
        tuple(
            tuple(sequence[length : length + count].tolist())
            for sequence, count in zip(sequences, counts, strict=True)
        ),
        rows,
    )


def _accepts(function: Any, name: str) -> bool:
    """True if the function has a parameter of this name, or takes any keyword argument."""
    parameters = inspect.signature(function).parameters
    return name in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _prompt_length(
    arguments: Mapping[str, Any], settings: Mapping[str, Any], result: Any, sequences: Tensor
) -> int:
    """How many ids at the start of a sequence were not generated: the prompt or start token."""
    beams = getattr(result, "beam_indices", None)
    if beams is not None:
        return int(sequences.shape[1] - beams.shape[1])
    inputs = {**arguments, **settings}
    for name in ("decoder_input_ids", "input_ids"):
        prompt = inputs.get(name)
        if prompt is not None and torch.equal(sequences[:, : prompt.shape[1]], prompt):
            return int(prompt.shape[1])
    return 1


def _batch_rows(result: Any, produced: Tensor, ends: set[int]) -> Tensor | None:
    """The row of the batch that each kept hypothesis had at each step, -1 after its end."""
    batch, steps = produced.shape
    own = getattr(result, "rows", None)  # the models of this package return the rows themselves
    if isinstance(own, Tensor):
        return own
    beams = getattr(result, "beam_indices", None)
    if beams is not None:
        return beams.T.long()  # type: ignore[no-any-return]
    if batch == 1:
        return None
    rows = torch.arange(batch, device=produced.device).repeat(steps, 1)
    return rows.masked_fill(_after_end(produced, ends).T, -1)


def _after_end(produced: Int[Tensor, "example step"], ends: set[int]) -> Tensor:
    """True where a sequence has already ended and is padded until the longest one ends."""
    known = torch.tensor([*ends], dtype=produced.dtype, device=produced.device)
    ended = torch.isin(produced, known).long()
    return ended.cumsum(1) - ended > 0  # the end token itself still belongs to the sequence


def _end_ids(model: nn.Module, settings: Mapping[str, Any]) -> set[int]:
    """The ids that end a sequence."""
    config = settings.get("generation_config", getattr(model, "generation_config", None))
    ends = settings.get("eos_token_id", getattr(config, "eos_token_id", None))
    if isinstance(ends, Tensor):
        ends = ends.tolist()
    return set() if ends is None else {ends} if isinstance(ends, int) else {*ends}
