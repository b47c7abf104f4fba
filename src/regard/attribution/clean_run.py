"""A model with one example that it has read: what it gave, where it looked, what is judged."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.objectives import (
    Given,
    Judge,
    Objective,
    Said,
    judge_of,
    main_tensor,
)
from regard.attribution.rollout import rollout
from regard.errors import InputError
from regard.tracing.inputs.example import Prepared, look, prepare
from regard.types import AttentionMap, Tokens, Trace

TOGETHER = 32  # variants that are run as one batch
HELD = 1 << 24  # numbers of all of them that are held at once: logits, or weights of a site


@dataclass(frozen=True, eq=False)
class Subject:
    """A model, one example as it takes it, and what came of the whole of it.

    `numbers` are how many the model gave: logits or states.
    """

    model: nn.Module
    example: Prepared
    trace: Trace
    judge: Judge
    whole: float
    numbers: int = 1
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
    ) -> "Subject":
        """The model after it has read an input, a target beside it if it has a decoder."""
        example = prepare(model, processor, inputs, target=target)
        output, trace = look(model, example, atlas=0)
        tokenizer = tokenizer_of(processor)
        judge: Judge
        if objective is not None:
            judge = Given(objective)
        else:
            masks = _places_of(example, getattr(tokenizer, "mask_token_id", None))
            judge = judge_of(model, example, output, causal=_is_causal(trace), masks=masks)
        numbers = main_tensor(output)[0].numel() if objective is None else 1
        return cls(model, example, trace, judge, float(judge(output)[0]), numbers, tokenizer)

    def together(self, maps: Iterable[AttentionMap] = (), most: int = TOGETHER) -> int:
        """How many variants of the example may be run as one batch.

        With their outputs, and the weights of any of the maps, they are a bounded size in memory.
        """
        held = [heads * rows * columns for heads, rows, columns in (each.shape for each in maps)]
        return max(1, min(most, HELD // max(1, self.numbers, *held)))

    @property
    def tokens(self) -> Tokens:
        """What the model read; an InputError where it read no tokens."""
        held, tokens = self.example.held, self.example.tokens
        if held is None or tokens is None or not self._reads(len(tokens)):
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

    def _reads(self, count: int) -> bool:
        """Whether so many tokens are what is looked at first."""
        maps, streams = self.trace.maps, self.trace.streams
        return not maps or len(streams[maps[0].columns.stream]) == count

    @property
    def seen(self) -> list[AttentionMap]:
        """The maps whose columns are the tokens that were read, in the order in which they ran."""
        if not self.trace.maps:
            return []
        stream = self.trace.maps[0].columns.stream
        return [each for each in self.trace.maps if each.columns.stream == stream]

    def attention(self) -> Float[Tensor, " token"]:
        """The weight of each token for what is judged: the mean of the last layer's heads.

        Of an encoder-decoder the last cross map's, over all rows; else the last map's: of the last
        row for the next token, of masked rows for what they hide, of a special first token for a
        class, and over all rows for the rest.
        """
        last = self._last
        columns = range(len(last.columns))
        parts = [last.part(range(row, row + 1), columns) for row in self._rows()] or [last]
        totals = [each.received().total.double().mean(dim=0) / len(each.rows) for each in parts]
        return self._placed(torch.stack(totals).mean(dim=0).cpu())

    def rolled_out(self) -> Float[Tensor, " token"]:
        """The share of each token in what is judged by attention rollout, over the same rows."""
        shares = rollout(self.trace)
        rows = self._rows() or list(range(len(self._last.rows)))
        return self._placed(shares[rows].mean(dim=0))

    @property
    def _last(self) -> AttentionMap:
        if not self.seen:
            raise InputError(
                f"{type(self.model).__name__} was not seen to attend to its tokens; give the "
                "importance of each of them"
            )
        return self.seen[-1]

    def _rows(self) -> list[int]:
        """The rows of the last map that lead to what is judged, where it is not all of them."""
        last, judge = self._last, self.judge
        if last.kind == "cross" or not isinstance(judge, Said):
            return []
        if judge.name in ("next token", "masked tokens"):
            return [range(len(last.rows))[row] for row in judge.rows]
        special = self.tokens.special
        summary = judge.name == "class" and special is not None and special[0]
        return [0] if summary and last.kind == "encoder" else []

    def _placed(self, scores: Float[Tensor, " key"]) -> Float[Tensor, " token"]:
        """The scores of the last map's columns as those of the tokens that they are."""
        found = torch.zeros(len(self.tokens), dtype=torch.float64)
        return found.index_add_(0, torch.tensor(self._last.columns.places), scores.double())


def tokenizer_of(processor: Any) -> Any:
    """The tokenizer of what is read: the processor itself, or that part of it."""
    own = processor if hasattr(processor, "convert_ids_to_tokens") else None
    found = own or getattr(processor, "tokenizer", None)
    return getattr(found, "source", found)


def units_of(tokens: Tokens, *, words: bool = True, special: bool = False) -> list[list[int]]:
    """The tokens that are erased together: the pieces of each word, or each token by itself.

    Special tokens are no words; those that no word has are left out unless `special`.

    >>> from regard.attribution.clean_run import units_of
    >>> from regard.types import Tokens
    >>> special = (False, False, False, True)
    >>> units_of(Tokens(("I", "lov", "##ing", "</s>"), words=(0, 1, 1, None), special=special))
    [[0], [1, 2]]
    """
    marks = tokens.special or (False,) * len(tokens)
    numbers = tokens.words if words and tokens.words is not None else range(len(tokens))
    found: dict[Any, list[int]] = {}
    for place, (number, marked) in enumerate(zip(numbers, marks, strict=True)):
        if not marked or special:
            found.setdefault(("alone", place) if number is None else number, []).append(place)
    if not found:
        raise InputError(
            f"expected at least one token that is not special, got {', '.join(tokens.texts)}"
        )
    return list(found.values())


def path_of(site: str) -> str:
    """The module's path of a site: one that runs again has path#1, and windows of it path@0.

    >>> from regard.attribution.clean_run import path_of
    >>> path_of("albert.layer#3")
    'albert.layer'
    """
    return re.sub(r"(@\d+)?(#\d+)?(@\d+)?$", "", site)


def only(path: str) -> str:
    """The pattern that fits this path alone, whatever signs of patterns are in it."""
    return re.sub(r"([*?[])", r"[\1]", path)


def _is_causal(trace: Trace) -> bool:
    return bool(trace.of("decoder"))


def _places_of(example: Prepared, number: int | None) -> list[int]:
    ids = None if example.tokens is None else example.tokens.ids
    return [place for place, each in enumerate(ids or ()) if each == number and number is not None]


def runs(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """The items, at most so many at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
