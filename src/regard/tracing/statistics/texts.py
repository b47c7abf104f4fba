"""Many texts encoded at once, each as long as the model reads, and padded batch by batch."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from regard.tracing.inputs.encodings import Text
from regard.tracing.inputs.reader import Feed, Kind, Reader, Side
from regard.tracing.inputs.token_names import Labels
from regard.types import Tokens

_MASK, _SPECIAL = "attention_mask", "special_tokens_mask"
_PART = re.compile("<0x[0-9A-F]{2}>")  # a byte that is no character by itself
_START = Tokens((), ids=(), special=())


@dataclass(frozen=True)
class Kinds:
    """The kinds that tokens are told apart by: the measure of each, and what says which it is."""

    names: tuple[str, ...]
    of: Callable[[Tokens], Int[Tensor, " token"]]


@dataclass(frozen=True)
class Row:
    """One text as the tokenizer gives it, by the names of a model's arguments."""

    parts: Mapping[str, Sequence[int]]
    kinds: Sequence[int]
    cut: bool = False

    def __len__(self) -> int:
        return len(self.kinds)


class Sorter:
    """Finds the kind of each token by its id; what depends on its neighbours, by all of them."""

    def __init__(self, labels: Labels, kinds: Kinds) -> None:
        self._labels, self._kinds = labels, kinds
        self._known: dict[tuple[int, bool], int | None] = {}

    def of(self, ids: Sequence[int], special: Sequence[bool] | None = None) -> list[int]:
        """The kinds of the tokens of one text; `special` are those that the tokenizer added."""
        special = [False] * len(ids) if special is None else special
        found = [self._lone(*each) for each in zip(ids, special, strict=True)]
        if None not in found:
            return [each for each in found if each is not None]
        tokens = self._labels.of_ids(ids)
        both = zip(tokens.special or special, special, strict=True)
        return self._of(replace(tokens, special=tuple(one or other for one, other in both)))

    def begun(self, start: int) -> int:
        """The kind of what a decoder starts with."""
        return self._of(self._labels.begun(start, _START))[0]

    def _lone(self, number: int, special: bool) -> int | None:
        key = number, special
        if key not in self._known:
            tokens = self._labels.of_ids((number,))
            part = _PART.search(tokens.texts[0]) is not None
            told = replace(tokens, special=(True,)) if special else tokens
            self._known[key] = None if part else self._of(told)[0]
        return self._known[key]

    def _of(self, tokens: Tokens) -> list[int]:
        found: list[int] = self._kinds.of(tokens).tolist()
        return found


class Texts(Reader):
    """A reader that encodes a lot of texts before they are run, and remembers them meanwhile.

    Texts of more than `longest` tokens are cut there, those of both sides.
    """

    def __init__(self, tokenizer: Any, kinds: Kinds, longest: int | None) -> None:
        super().__init__(tokenizer)
        self._longest = longest
        self.sorter = Sorter(self.labels, kinds)
        self.target_sorter = Sorter(self.target_labels, kinds)
        self._sources: dict[Text, Row] = {}
        self._targets: dict[str, Row] = {}

    def read(self, texts: Sequence[Text], targets: Sequence[str] | None) -> None:
        """Encode texts, and forget those before."""
        pairs = [each for each in texts if isinstance(each, tuple)]
        columns = [list(column) for column in zip(*pairs, strict=True)] if pairs else [list(texts)]
        self._sources = dict(zip(texts, self._rows(self.sorter, *columns), strict=True))
        if targets is not None:
            rows = self._rows(self.target_sorter, text_target=list(targets))
            self._targets = dict(zip(targets, rows, strict=True))

    def source(self, text: Text) -> Row:
        """A text that was read."""
        return self._sources[text]

    def target(self, text: str) -> Row:
        """A target that was read."""
        return self._targets[text]

    def feed(self, kind: Kind, examples: Sequence[Any], side: Side) -> Feed:
        """The arguments of texts that were read; their tokens are not named."""
        rows = [self._sources[each] for each in examples]
        return Feed(self._padded("source", rows), (None,) * len(rows))

    def targets(self, texts: Sequence[str]) -> tuple[Tensor, Tensor, list[Tokens]]:
        """Ids and mask of targets that were read; their tokens are not named."""
        found = self._padded("target", [self._targets[each] for each in texts])
        return found["input_ids"], found[_MASK], [_START] * len(texts)

    def _padded(self, side: Literal["source", "target"], rows: Sequence[Row]) -> dict[str, Tensor]:
        """The rows as tensors; what stands for padding is hidden by the mask, whatever it is."""
        own = getattr(self.tokenizer, side, self.tokenizer)
        fill = {"input_ids": getattr(own, "pad_token_id", None) or 0}
        return {
            name: padded([row.parts[name] for row in rows], fill.get(name, 0))
            for name in rows[0].parts
        }

    def _rows(self, sorter: Sorter, *columns: list[str], **target: list[str]) -> list[Row]:
        """Each text, cut if it is longer than the longest, which one token more would tell."""
        more = None if self._longest is None else self._longest + 1
        encoding = self._encoded(columns, target, more)
        rows = [_row(sorter, encoding, number) for number in range(len(encoding["input_ids"]))]
        long = [number for number, row in enumerate(rows) if len(row) == more]
        if not long:
            return rows
        some = [[column[number] for number in long] for column in columns]
        others = {name: [texts[number] for number in long] for name, texts in target.items()}
        again = self._encoded(some, others, self._longest)
        for place, number in enumerate(long):
            rows[number] = replace(_row(sorter, again, place), cut=True)
        return rows

    def _encoded(
        self, columns: Sequence[list[str]], target: Mapping[str, list[str]], limit: int | None
    ) -> Any:
        cut = {} if limit is None else {"truncation": True, "max_length": limit}
        return self.tokenizer(
            *columns, **target, return_attention_mask=True, return_special_tokens_mask=True, **cut
        )


def _row(sorter: Sorter, encoding: Mapping[str, Any], number: int) -> Row:
    parts = {name: encoding[name][number] for name in encoding if name != _SPECIAL}
    ids = parts["input_ids"]
    added = encoding[_SPECIAL][number] if _SPECIAL in encoding else [0] * len(ids)
    return Row(parts, sorter.of(ids, list(map(bool, added))))


def padded(rows: Sequence[Sequence[int]], fill: int) -> Int[Tensor, "row column"]:
    """Rows of unequal lengths, filled up at the right.

    >>> from regard.tracing.statistics.texts import padded
    >>> padded([[5], [7, 3]], 0).tolist()
    [[5, 0], [7, 3]]
    """
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows], dtype=torch.long)
