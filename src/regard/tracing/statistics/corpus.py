"""A model's passes over many texts: in batches of like lengths, each summed up."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.configs import context_length
from regard.errors import InputError
from regard.tracing.inputs.encodings import Text
from regard.tracing.inputs.reader import Kind
from regard.tracing.inputs.runner import Batch, Run, at_rest, in_range
from regard.tracing.statistics.collect import Tallied, tally
from regard.tracing.statistics.streams import TokenKinds
from regard.tracing.statistics.texts import Kinds, Row, Texts, padded


@dataclass(frozen=True)
class Group:
    """Texts that are run together, and how many of them were cut."""

    batch: Batch
    cut: int

    def __len__(self) -> int:
        return len(self.batch.examples)


@dataclass(frozen=True)
class _Example:
    """A text and its target, if it has one, as they were read."""

    source: Text
    target: str | None
    rows: tuple[Row, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.rows))


class Passes(Run):
    """Runs a model over texts in batches of at most so many tokens, padding included.

    Texts are cut after `longest` tokens; where none is told, where tokenizer and model say that
    they end. A model with a decoder is made to write the second text of each pair.
    """

    reader: Texts

    def __init__(
        self, model: nn.Module, tokenizer: Any, kinds: Kinds, *, tokens: int, longest: int | None
    ) -> None:
        if longest is None:
            longest = context_length(getattr(model, "config", None), tokenizer)
        self.longest = longest
        super().__init__(model, Texts(tokenizer, kinds, self.longest), None, {})
        self._tokens, self._kinds = tokens, kinds

    @property
    def takes_pairs(self) -> bool:
        """Whether the model reads one text and writes another."""
        return self._has_decoder

    def groups(self, texts: Sequence[Text]) -> list[Group]:
        """The texts in groups of like lengths, the longest first; those of no token are left out.

        They are remembered until the next ones come.
        """
        sources, targets = self._sides(texts)
        self.reader.read(sources, targets)
        written: Sequence[str | None] = targets or [None] * len(sources)
        examples = [
            _Example(*pair, self._rows(*pair)) for pair in zip(sources, written, strict=True)
        ]
        there = [each for each in examples if all(each.sizes)]
        there.sort(key=lambda each: each.sizes, reverse=True)
        return [_group(some) for some in self._parts(there)]

    def tally(self, group: Group) -> Tallied:
        """What the heads did while the model ran the group."""
        _, arguments, _ = self.prepared(group.batch)
        names = self._kinds.names
        with at_rest(self.model), torch.no_grad(), tally(self.model, names) as found:
            found.tell(self._told_kinds(group.batch, arguments))
            with in_range(self.model):
                self.forward(arguments)
        return found

    def _sides(self, texts: Sequence[Text]) -> tuple[list[Text], list[str] | None]:
        """The texts that are read, and those that are to be written."""
        pairs = [each for each in texts if isinstance(each, tuple)]
        if self._has_decoder and len(pairs) == len(texts):
            return [source for source, _ in pairs], [target for _, target in pairs]
        if self._has_decoder or len(pairs) not in (0, len(texts)):
            wanted = "pairs (source, target)" if self._has_decoder else "texts, or pairs of them"
            one = next(each for each in texts if self._has_decoder != isinstance(each, tuple))
            raise InputError(
                f"{type(self.model).__name__} expected {wanted}, got {str(one)[:60]!r} among them"
            )
        return list(texts), None

    def _rows(self, source: Text, target: str | None) -> tuple[Row, ...]:
        read = self.reader.source(source)
        return (read,) if target is None else (read, self.reader.target(target))

    def _parts(self, examples: Iterable[_Example]) -> Iterator[list[_Example]]:
        """Runs of examples whose longest are not too long together.

        A model that cannot be told of padding gets texts of one length.
        """
        masked = not self._taken or "attention_mask" in self._taken
        part, longest = list[_Example](), tuple[int, ...]()
        for each in examples:
            both = tuple(map(max, longest, each.sizes)) if part else each.sizes
            alike = masked or each.sizes[0] == both[0]
            if part and (sum(both) * (len(part) + 1) > self._tokens or not alike):
                yield part
                part, both = [], each.sizes
            part.append(each)
            longest = both
        if part:
            yield part

    def _told_kinds(self, batch: Batch, arguments: dict[str, Any]) -> dict[str, TokenKinds]:
        """The kinds of the tokens that are read, and of those that a decoder reads."""
        padding = len(self._kinds.names)
        rows = [self.reader.source(each).kinds for each in batch.examples]
        if batch.targets is None:
            return {"tokens": padded(rows, padding)}
        read = arguments["decoder_input_ids"].tolist()
        lengths = [len(self.reader.target(each)) for each in batch.targets]
        # a start that the tokenizer had put there itself was taken off
        shorter = max(lengths) - len(read[0])
        sorter = self.reader.target_sorter
        told = [
            [sorter.begun(ids[0]), *sorter.of(ids[1 : length - shorter])]
            for ids, length in zip(read, lengths, strict=True)
        ]
        return {"source": padded(rows, padding), "target": padded(told, padding)}


def _group(examples: Sequence[_Example]) -> Group:
    sources = [each.source for each in examples]
    targets = [each.target for each in examples if each.target is not None]
    kind: Kind = "pair" if isinstance(sources[0], tuple) else "text"
    cut = sum(any(row.cut for row in each.rows) for each in examples)
    return Group(Batch(kind, sources, targets or None), cut)
