"""What a model generated: the ids of each kept hypothesis, and the rows of the batch it had."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.errors import InputError


@dataclass(frozen=True, eq=False)
class Decoded:
    """Of each example, what the decoder began with and what it went on with, until its end.

    `rows` is that of Told: None where an example had its own row throughout.
    """

    begun: tuple[tuple[int, ...], ...]
    produced: tuple[tuple[int, ...], ...]
    rows: Int[Tensor, "step example"] | None


def decode(
    model: nn.Module, arguments: Mapping[str, Any], plan: Mapping[str, Any], batch: int
) -> Decoded:
    """Let the model generate, and keep the best hypothesis of each example of the batch."""
    generate: Any = model.generate
    asked = {"return_dict_in_generate": True}
    result = generate(**arguments, **plan, **(asked if _takes(generate, *asked) else {}))
    sequences = getattr(result, "sequences", result)
    if len(sequences) != batch:
        raise InputError(
            f"capture keeps one hypothesis of each example, got {len(sequences)} for {batch}; "
            "leave num_return_sequences at one"
        )
    begun = _begun(arguments, plan, result, sequences)
    rows = _rows(result, sequences[:, begun:], _ends(model, plan))
    steps = sequences.shape[1] - begun
    lengths = [steps] * batch if rows is None else (rows >= 0).sum(0).tolist()
    return Decoded(
        tuple(tuple(each[:begun].tolist()) for each in sequences),
        tuple(
            tuple(each[begun : begun + length].tolist())
            for each, length in zip(sequences, lengths, strict=True)
        ),
        rows,
    )


def _takes(function: Any, name: str) -> bool:
    parameters = inspect.signature(function).parameters
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _begun(
    arguments: Mapping[str, Any], plan: Mapping[str, Any], result: Any, sequences: Tensor
) -> int:
    """How many ids of a sequence the decoder was given: a prompt, or one to start with."""
    beams = getattr(result, "beam_indices", None)
    if beams is not None:
        return int(sequences.shape[1] - beams.shape[1])
    given = {**arguments, **plan}
    for name in ("decoder_input_ids", "input_ids"):
        prompt = given.get(name)
        if prompt is not None and torch.equal(sequences[:, : prompt.shape[1]], prompt):
            return int(prompt.shape[1])
    return 1


def _rows(result: Any, produced: Tensor, ends: set[int]) -> Tensor | None:
    batch, steps = produced.shape
    own = getattr(result, "rows", None)  # a model that tells whose row went where
    if isinstance(own, Tensor):
        return own
    beams = getattr(result, "beam_indices", None)
    if beams is not None:
        return beams.T.long()  # type: ignore[no-any-return]
    if batch == 1:
        return None
    rows = torch.arange(batch, device=produced.device).repeat(steps, 1)
    return rows.masked_fill(_after_the_end(produced, ends).T, -1)


def _after_the_end(produced: Int[Tensor, "example step"], ends: set[int]) -> Tensor:
    """Where a sequence had ended already: it is filled up until the longest one ends."""
    known = torch.tensor([*ends], dtype=produced.dtype, device=produced.device)
    ended = torch.isin(produced, known).long()
    return ended.cumsum(1) - ended > 0


def _ends(model: nn.Module, plan: Mapping[str, Any]) -> set[int]:
    """The ids after which nothing comes."""
    config = plan.get("generation_config", getattr(model, "generation_config", None))
    ends = plan.get("eos_token_id", getattr(config, "eos_token_id", None))
    if isinstance(ends, Tensor):
        ends = ends.tolist()
    return set() if ends is None else {ends} if isinstance(ends, int) else {*ends}
