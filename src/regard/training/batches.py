"""Batches of examples of similar length, so that little of a batch is padding.

A batch is limited by its number of tokens and not by its number of examples: with a budget of 4,096
tokens it has 400 sentences of 10 tokens, or 40 of 100.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from regard.errors import InputError

Example = tuple[Sequence[int], ...]  # the ids of each side: (source, target), or (text,)
Encode = Callable[[list[Any]], list[Example]]

POOL = 1 << 17  # number of examples that are shuffled and sorted together


@dataclass(frozen=True)
class Place:
    """A position in the stream of batches: finished epochs, and batches of the current epoch."""

    epoch: int = 0
    batch: int = 0


class Batches:
    """An endless stream of batches, epoch after epoch; the same seed gives the same stream.

    A batch holds at most `budget` tokens of its longest side, padding included. The corpus is read
    and encoded in pools of `pool` examples. The examples of a pool are shuffled, sorted by length
    and cut into batches, and these are shuffled. A corpus that fits into one pool is encoded only
    once. Examples with a side of more than `longest` tokens are skipped. `place` is the current
    position, and `resume_at` continues from one.
    """

    def __init__(
        self,
        corpus: Iterable[Any],
        encode: Encode,
        budget: int,
        *,
        seed: int = 0,
        longest: int | None = None,
        pool: int = POOL,
    ) -> None:
        if budget < 1:
            raise InputError(f"expected a budget of at least one token a batch, got {budget}")
        self.corpus, self.encode, self.budget = corpus, encode, budget
        self.seed, self.pool = seed, pool
        self.longest = min(longest or budget, budget)
        self.place = Place()
        self.skipped = 0  # examples of this epoch that were empty or too long
        self._whole: list[Example] | None = None

    def resume_at(self, place: Place) -> None:
        """Continue from a position that was stored in a checkpoint."""
        self.place = place

    def __iter__(self) -> Iterator[list[Example]]:
        while True:
            # After a resume the batches of this epoch that were already used are made again and
            # skipped: their order follows from the seed alone.
            first, has_batches = self.place.batch, False
            for number, batch in enumerate(self._epoch(self.place.epoch)):
                has_batches = True
                if number >= first:
                    self.place = Place(self.place.epoch, number + 1)
                    yield batch
            if not has_batches:
                raise InputError(
                    f"the corpus has no example of at most {self.longest} tokens; "
                    "name another, or raise the limit of tokens"
                )
            self.place = Place(self.place.epoch + 1, 0)

    def _epoch(self, epoch: int) -> Iterator[list[Example]]:
        """All batches of one epoch, pool by pool."""
        self.skipped = 0
        for number, examples in enumerate(self._pools()):
            # Not Random(tuple): its seed would depend on the interpreter's hashing.
            generator = random.Random(f"{self.seed} {epoch} {number}")
            yield from self._shuffle_pool(examples, generator)

    def _pools(self) -> Iterator[list[Example]]:
        """The encoded examples of the corpus, pool by pool."""
        if self._whole is not None:
            yield self._whole
            return
        entries = iter(self.corpus)
        pools = 0
        while raw := list(islice(entries, self.pool)):
            examples = self.encode(raw)
            pools += 1
            if pools == 1 and len(raw) < self.pool:
                self._whole = examples  # the corpus is small: keep it for the next epochs
            yield examples

    def _shuffle_pool(
        self, examples: list[Example], generator: random.Random
    ) -> Iterator[list[Example]]:
        """The batches of one pool in random order, each of examples of similar length."""
        fitting = [example for example in examples if self._fits(example)]
        self.skipped += len(examples) - len(fitting)
        generator.shuffle(fitting)
        # The sort is stable: examples of equal length stay in random order.
        fitting.sort(key=lambda sides: tuple(len(side) for side in reversed(sides)))
        batches = list(self._cut_into_batches(fitting))
        generator.shuffle(batches)
        yield from batches

    def _fits(self, sides: Example) -> bool:
        """True if no side is empty or too long."""
        return all(0 < len(side) <= self.longest for side in sides)

    def _cut_into_batches(self, ordered: list[Example]) -> Iterator[list[Example]]:
        """Batches of consecutive examples that stay within the budget, padding included."""
        batch: list[Example] = []
        widest = 0
        for sides in ordered:
            width = max(widest, *map(len, sides))
            if batch and width * (len(batch) + 1) > self.budget:
                yield batch
                batch, width = [], max(map(len, sides))
            batch.append(sides)
            widest = width
        if batch:
            yield batch


def process_share(batch: list[Example], rank: int, process_group: int) -> list[Example]:
    """The part of a batch for the process of this rank; all parts together are the batch."""
    return batch[rank::process_group]


def padding_fraction(batches: Iterable[list[Example]], side: int = -1) -> float:
    """The fraction of padding in the tensors of one side, the last by default."""
    real = padded = 0
    for batch in batches:
        lengths = [len(sides[side]) for sides in batch]
        real += sum(lengths)
        padded += max(lengths) * len(lengths)
    return 1 - real / padded if padded else 0.0
