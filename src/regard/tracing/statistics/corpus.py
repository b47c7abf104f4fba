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
    """A text and its target, if it has one, and the encoded rows of both."""

    source: Text
    target: str | None
    rows: tuple[EncodedRow, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of tokens of the source and, if there is one, of the target."""
        return tuple(map(len, self.rows))


class CorpusRunner(ModelRunner):
    """Runs a model over texts in batches of at most `tokens` tokens, padding included.

    Texts are truncated to `longest` tokens; None stands for the context length of the model and its
    tokenizer. An encoder-decoder gets pairs: it reads the first text of a pair with its encoder and
    the second one with its decoder (teacher forcing).
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
        """True for an encoder-decoder, whose texts are pairs of a source and a target."""
        return self._has_decoder

    def groups(self, texts: Sequence[Text]) -> list[TextGroup]:
        """The texts in groups of similar length, the longest first; empty texts are left out.

        The encoded texts are kept until the next call.
        """
        sources, targets = self._split_pairs(texts)
        self.reader.read(sources, targets)
        optional: Sequence[str | None] = targets or [None] * len(sources)
        pairs = zip(sources, optional, strict=True)
        examples = [_Example(*pair, self._rows(*pair)) for pair in pairs]
        not_empty = [example for example in examples if all(example.sizes)]
        not_empty.sort(key=lambda example: example.sizes, reverse=True)
        return [_make_group(batch) for batch in self._split_batches(not_empty)]

    def run_group(self, group: TextGroup) -> BatchStatistics:
        """Run the group, and return the statistics of every head."""
        _, arguments, _ = self.prepare_batch(group.batch)
        names = self._kinds.names
        with (
            evaluation_mode(self.model),
            torch.no_grad(),
            collect_statistics(self.model, names) as statistics,
        ):
            statistics.set_kinds(self._token_kinds(group.batch, arguments))
            with explain_index_errors(self.model):
                self.forward(arguments)
        return statistics

    def _split_pairs(self, texts: Sequence[Text]) -> tuple[list[Text], list[str] | None]:
        """The texts that the model reads, and the targets if it has a decoder."""
        pairs = [text for text in texts if isinstance(text, tuple)]
        if self._has_decoder and len(pairs) == len(texts):
            return [source for source, _ in pairs], [target for _, target in pairs]
        if self._has_decoder or len(pairs) not in (0, len(texts)):
            expected = "pairs (source, target)" if self._has_decoder else "texts, or pairs of them"
            wrong = next(text for text in texts if self._has_decoder != isinstance(text, tuple))
            raise InputError(
                f"{type(self.model).__name__} expected {expected}, got "
                f"{str(wrong)[:60]!r} among them"
            )
        return list(texts), None

    def _rows(self, source: Text, target: str | None) -> tuple[EncodedRow, ...]:
        """The encoded source and, if there is one, the encoded target of an example."""
        encoded = self.reader.source(source)
        return (encoded,) if target is None else (encoded, self.reader.target(target))

    def _split_batches(self, examples: Iterable[_Example]) -> Iterator[list[_Example]]:
        """Runs of examples that fit in one batch of at most `tokens` tokens, padding included.

        A model that takes no attention mask gets texts of one length in a batch.
        """
        masked = not self._parameters or "attention_mask" in self._parameters
        batch, padded = list[_Example](), tuple[int, ...]()  # padded: lengths of a row of the batch
        for example in examples:
            sizes = tuple(map(max, padded, example.sizes)) if batch else example.sizes
            fits = masked or example.sizes[0] == sizes[0]
            if batch and (sum(sizes) * (len(batch) + 1) > self._tokens or not fits):
                yield batch
                batch, sizes = [], example.sizes
            batch.append(example)
            padded = sizes
        if batch:
            yield batch

    def _token_kinds(self, batch: InputBatch, arguments: dict[str, Any]) -> dict[str, KindIndices]:
        """The kinds of the source tokens, and of the tokens that the decoder reads."""
        padding = len(self._kinds.names)
        rows = [self.reader.source(text).kinds for text in batch.examples]
        if batch.targets is None:
            return {"tokens": pad_rows(rows, padding)}
        inputs = arguments["decoder_input_ids"].tolist()
        lengths = [len(self.reader.target(text)) for text in batch.targets]
        # if the tokenizer itself had begun the target with a start token, it was removed
        removed = max(lengths) - len(inputs[0])
        finder = self.reader.target_kinds
        targets = [
            [finder.kind_of_start(ids[0]), *finder.kinds_of(ids[1 : length - removed])]
            for ids, length in zip(inputs, lengths, strict=True)
        ]
        return {"source": pad_rows(rows, padding), "target": pad_rows(targets, padding)}


def _make_group(examples: Sequence[_Example]) -> TextGroup:
    """The examples of one batch as a group, with the number of truncated ones."""
    sources = [example.source for example in examples]
    targets = [example.target for example in examples if example.target is not None]
    kind: InputKind = "pair" if isinstance(sources[0], tuple) else "text"
    cut = sum(any(row.cut for row in example.rows) for example in examples)
    return TextGroup(InputBatch(kind, sources, targets or None), cut)
