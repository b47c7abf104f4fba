"""The clean run of a model: one unchanged example, its output, its trace and the objective.

Everything that changes an input or an intermediate result (occlusion, faithfulness, knock-outs) is
compared with the clean run, and runs the model on variants of the same example in batches.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.objectives import (
    CustomObjective,
    NamedObjective,
    Objective,
    TokenProbability,
    default_objective,
    main_tensor,
)
from regard.errors import InputError
from regard.tracing.inputs.example import PreparedExample, prepare_example, trace_example
from regard.types import AttentionMap, Tokens, Trace

BATCH = 32  # the most variants that run as one batch
NUMBERS_HELD = 1 << 24  # the most logits, or weights of a site, that a batch holds at once


@dataclass(frozen=True, eq=False)
class CleanRun:
    """A model, one example as its forward takes it, and what came of the unchanged example.

    `value` is the objective's value, `output_size` how many logits or states the model returned.
    """

    model: nn.Module
    example: PreparedExample
    trace: Trace
    objective: NamedObjective
    value: float
    output_size: int = 1
    tokenizer: Any = None

    @classmethod
    def of(
        cls,
        model: nn.Module,
        processor: Any,
        inputs: Any,
        *,
        target: str | None = None,
        objective: Objective | None = None,
    ) -> "CleanRun":
        """Run the model on an input, with a target text for its decoder if it has one."""
        example = prepare_example(model, processor, inputs, target=target)
        output, trace = trace_example(model, example, atlas=0)
        tokenizer = source_tokenizer(processor)
        chosen: NamedObjective
        if objective is not None:
            chosen = CustomObjective(objective)
        else:
            masks = _positions_of_id(example, getattr(tokenizer, "mask_token_id", None))
            causal = bool(trace.of("decoder"))
            chosen = default_objective(model, example, output, causal=causal, masks=masks)
        size = main_tensor(output)[0].numel() if objective is None else 1
        return cls(model, example, trace, chosen, float(chosen(output)[0]), size, tokenizer)

    def batch_size(self, maps: Iterable[AttentionMap] = (), most: int = BATCH) -> int:
        """How many variants of the example may run as one batch.

        The bound keeps their outputs, and the weights of any one of the maps, within memory.
        """
        sizes = [heads * rows * columns for heads, rows, columns in (each.shape for each in maps)]
        return max(1, min(most, NUMBERS_HELD // max(1, self.output_size, *sizes)))

    @property
    def tokens(self) -> Tokens:
        """The tokens that the model read; an InputError where the input has none."""
        held, tokens = self.example.held, self.example.tokens
        if held is None or tokens is None or not self._first_map_has(len(tokens)):
            raise InputError(
                "expected an input of tokens, as ids (1 token) or vectors (1 token dim), got "
                f"{', '.join(self.example.arguments)}"
            )
        count = self.example.arguments[held].shape[1]
        if len(tokens) != count:
            raise InputError(
                f"expected an example without padding, got {len(tokens)} real tokens of {count}"
            )
        return tokens

    def _first_map_has(self, count: int) -> bool:
        """True if the first map has `count` keys, or if there is no map at all."""
        maps, streams = self.trace.maps, self.trace.streams
        return not maps or len(streams[maps[0].columns.stream]) == count

    @property
    def input_maps(self) -> list[AttentionMap]:
        """The maps whose keys are the input tokens, in the order in which they ran."""
        if not self.trace.maps:
            return []
        stream = self.trace.maps[0].columns.stream
        return [each for each in self.trace.maps if each.columns.stream == stream]

    @property
    def last_map(self) -> AttentionMap:
        """The last map whose keys are the input tokens."""
        if not self.input_maps:
            raise InputError(
                f"{type(self.model).__name__} was not seen to attend to its tokens; give the "
                "importance of each of them"
            )
        return self.input_maps[-1]

    def objective_rows(self) -> list[int]:
        """The rows of the last map that lead to the objective; empty if all of them do.

        They are the last row for the next token, the masked rows for masked tokens, and a special
        first token such as [CLS] for a class.
        """
        last, objective = self.last_map, self.objective
        if last.kind == "cross" or not isinstance(objective, TokenProbability):
            return []
        if objective.name in ("next token", "masked tokens"):
            return [range(len(last.rows))[row] for row in objective.rows]
        special = self.tokens.special
        summary = objective.name == "class" and special is not None and special[0]
        return [0] if summary and last.kind == "encoder" else []

    def columns_to_tokens(self, values: Float[Tensor, " key"]) -> Float[Tensor, " token"]:
        """Numbers of the last map's columns as numbers of all input tokens, 0 where it has none."""
        total = torch.zeros(len(self.tokens), dtype=torch.float64)
        return total.index_add_(0, torch.tensor(self.last_map.columns.positions), values.double())


def source_tokenizer(processor: Any) -> Any:
    """The tokenizer of the input: the processor itself, or its tokenizer for the source."""
    own = processor if hasattr(processor, "convert_ids_to_tokens") else None
    tokenizer = own or getattr(processor, "tokenizer", None)
    return getattr(tokenizer, "source", tokenizer)


def word_units(tokens: Tokens, *, words: bool = True, special: bool = False) -> list[list[int]]:
    """The positions of tokens that are erased together: the pieces of a word, or single tokens.

    Special tokens belong to no word and are left out unless `special`.

    >>> from regard.attribution.clean_run import word_units
    >>> from regard.types import Tokens
    >>> special = (False, False, False, True)
    >>> word_units(Tokens(("I", "lov", "##ing", "</s>"), words=(0, 1, 1, None), special=special))
    [[0], [1, 2]]
    """
    marks = tokens.special or (False,) * len(tokens)
    numbers = tokens.words if words and tokens.words is not None else range(len(tokens))
    units: dict[Any, list[int]] = {}
    for place, (number, marked) in enumerate(zip(numbers, marks, strict=True)):
        if not marked or special:
            units.setdefault(("alone", place) if number is None else number, []).append(place)
    if not units:
        raise InputError(
            f"expected at least one token that is not special, got {', '.join(tokens.texts)}"
        )
    return list(units.values())


def module_path(site: str) -> str:
    """The path of the module behind a site: a second run of it is path#1, one window of it path@0.

    >>> from regard.attribution.clean_run import module_path
    >>> module_path("albert.layer#3")
    'albert.layer'
    """
    return re.sub(r"(@\d+)?(#\d+)?(@\d+)?$", "", site)


def literal_pattern(path: str) -> str:
    """The pattern that fits this path alone: the signs *, ? and [ in it are escaped."""
    return re.sub(r"([*?[])", r"[\1]", path)


def chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The items in order, at most `size` at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _positions_of_id(example: PreparedExample, number: int | None) -> list[int]:
    ids = None if example.tokens is None else example.tokens.ids
    return [place for place, each in enumerate(ids or ()) if each == number and number is not None]
