"""Run a model over many texts in batches of similar length, and collect statistics of each."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from regard.configs import context_length
from regard.errors import InputError
from regard.tracing.inputs.encodings import Text
from regard.tracing.inputs.reader import InputKind
from regard.tracing.inputs.runner import (
    InputBatch,
    ModelRunner,
    evaluation_mode,
    explain_index_errors,
)
from regard.tracing.statistics.collect import BatchStatistics, collect_statistics
from regard.tracing.statistics.streams import KindIndices
from regard.tracing.statistics.texts import CorpusReader, EncodedRow, TokenKinds, pad_rows


@dataclass(frozen=True)
class TextGroup:
    """Texts that are run together, and how many of them were truncated."""

    batch: InputBatch
    cut: int

    def __len__(self) -> int:
        return len(self.batch.examples)


@dataclass(frozen=True)
class _Example:
    """A text and its target, if it has one, as they were read."""

    source: Text
    target: str | None
    rows: tuple[EncodedRow, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.rows))


class CorpusRunner(ModelRunner):
    """Runs a model over texts in batches of at most so many tokens, padding included.

    Texts are cut after `longest` tokens; where none is told, where tokenizer and model say that
    they end. A model with a decoder is made to write the second text of each pair.
    """

    reader: CorpusReader

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        kinds: TokenKinds,
        *,
        tokens: int,
        longest: int | None,
    ) -> None:
        if longest is None:
            longest = context_length(getattr(model, "config", None), tokenizer)
        self.longest = longest
        super().__init__(model, CorpusReader(tokenizer, kinds, self.longest), None, {})
        self._tokens, self._kinds = tokens, kinds

    @property
    def takes_pairs(self) -> bool:
        """Whether the model reads one text and writes another."""
        return self._has_decoder

    def groups(self, texts: Sequence[Text]) -> list[TextGroup]:
        """The texts in groups of similar length, the longest first; empty texts are left out.

        The encoded texts are kept until the next call.
        """
        sources, targets = self._split_pairs(texts)
        self.reader.read(sources, targets)
        written: Sequence[str | None] = targets or [None] * len(sources)
        examples = [
            _Example(*pair, self._rows(*pair)) for pair in zip(sources, written, strict=True)
        ]
        there = [each for each in examples if all(each.sizes)]
        there.sort(key=lambda each: each.sizes, reverse=True)
        return [_make_group(some) for some in self._split_batches(there)]

    def run_group(self, group: TextGroup) -> BatchStatistics:
        """Run the group, and return the statistics of every head."""
        _, arguments, _ = self.prepare_batch(group.batch)
        names = self._kinds.names
        with (
            evaluation_mode(self.model),
            torch.no_grad(),
            collect_statistics(self.model, names) as found,
        ):
            found.set_kinds(self._token_kinds(group.batch, arguments))
            with explain_index_errors(self.model):
                self.forward(arguments)
        return found

    def _split_pairs(self, texts: Sequence[Text]) -> tuple[list[Text], list[str] | None]:
        """The texts that the model reads, and the targets if it has a decoder."""
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

    def _rows(self, source: Text, target: str | None) -> tuple[EncodedRow, ...]:
        read = self.reader.source(source)
        return (read,) if target is None else (read, self.reader.target(target))

    def _split_batches(self, examples: Iterable[_Example]) -> Iterator[list[_Example]]:
        """Runs of examples that fit in one batch of at most `tokens` tokens, padding included.

        A model that takes no attention mask gets texts of one length in a batch.
        """
        masked = not self._parameters or "attention_mask" in self._parameters
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

    def _token_kinds(self, batch: InputBatch, arguments: dict[str, Any]) -> dict[str, KindIndices]:
        """The kinds of the source tokens, and of the tokens that the decoder reads."""
        padding = len(self._kinds.names)
        rows = [self.reader.source(each).kinds for each in batch.examples]
        if batch.targets is None:
            return {"tokens": pad_rows(rows, padding)}
        read = arguments["decoder_input_ids"].tolist()
        lengths = [len(self.reader.target(each)) for each in batch.targets]
        # a start that the tokenizer had put there itself was taken off
        shorter = max(lengths) - len(read[0])
        sorter = self.reader.target_kinds
        told = [
            [sorter.kind_of_start(ids[0]), *sorter.kinds_of(ids[1 : length - shorter])]
            for ids, length in zip(read, lengths, strict=True)
        ]
        return {"source": pad_rows(rows, padding), "target": pad_rows(told, padding)}


def _make_group(examples: Sequence[_Example]) -> TextGroup:
    sources = [each.source for each in examples]
    targets = [each.target for each in examples if each.target is not None]
    kind: InputKind = "pair" if isinstance(sources[0], tuple) else "text"
    cut = sum(any(row.cut for row in each.rows) for each in examples)
    return TextGroup(InputBatch(kind, sources, targets or None), cut)
