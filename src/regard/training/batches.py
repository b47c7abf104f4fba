"""Batches of about as many tokens each, of examples about as long: little of them is padding."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from regard.errors import InputError

Example = tuple[Sequence[int], ...]  # the ids of each side
Encode = Callable[[list[Any]], list[Example]]

POOL = 1 << 17  # examples that are shuffled and sorted together


@dataclass(frozen=True)
class Place:
    """Where the batches are: how many epochs are done, and how many batches of this one."""

    epoch: int = 0
    batch: int = 0


class Batches:
    """Lists of examples, without end, epoch after epoch; the same for the same seed.

    A batch holds at most `budget` tokens of its longest side, padding counted. The corpus is read
    and encoded a pool at a time, shuffled within the pool, and cut into batches of like lengths,
    which are shuffled again. A corpus that is one pool is encoded once. `place` says where it is,
    and `go_to` goes there.
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

    def go_to(self, place: Place) -> None:
        """Go on from a place that was noted before."""
        self.place = place

    def __iter__(self) -> Iterator[list[Example]]:
        while True:
            first, found = self.place.batch, False
            for number, batch in enumerate(self._epoch(self.place.epoch)):
                found = True
                if number >= first:
                    self.place = Place(self.place.epoch, number + 1)
                    yield batch
            if not found:
                raise InputError(
                    f"the corpus has no example of at most {self.longest} tokens; "
                    "name another, or raise the limit of tokens"
                )
            self.place = Place(self.place.epoch + 1, 0)

    def _epoch(self, epoch: int) -> Iterator[list[Example]]:
        self.skipped = 0
        for number, examples in enumerate(self._pools()):
            # Not Random(tuple): its seed would depend on the interpreter's hashing.
            order = random.Random(f"{self.seed} {epoch} {number}")
            yield from self._shuffled(examples, order)

    def _pools(self) -> Iterator[list[Example]]:
        if self._whole is not None:
            yield self._whole
            return
        lines = iter(self.corpus)
        pools = 0
        while raw := list(islice(lines, self.pool)):
            examples = self.encode(raw)
            pools += 1
            if pools == 1 and len(raw) < self.pool:
                self._whole = examples
            yield examples

    def _shuffled(self, examples: list[Example], order: random.Random) -> Iterator[list[Example]]:
        fitting = [each for each in examples if self._fits(each)]
        self.skipped += len(examples) - len(fitting)
        order.shuffle(fitting)
        # a stable sort: equal lengths stay shuffled
        fitting.sort(key=lambda sides: tuple(len(side) for side in reversed(sides)))
        batches = list(self._cut(fitting))
        order.shuffle(batches)
        yield from batches

    def _fits(self, sides: Example) -> bool:
        return all(0 < len(side) <= self.longest for side in sides)

    def _cut(self, ordered: list[Example]) -> Iterator[list[Example]]:
        """Neighbours together while the batch with its padding stays within the budget."""
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


def share(batch: list[Example], rank: int, process_group: int) -> list[Example]:
    """The part of a batch that one of several processes takes; together they take all of it."""
    return batch[rank::process_group]


def padding_share(batches: Iterable[list[Example]], side: int = -1) -> float:
    """Which share of the padded tensors of one side is padding."""
    real = padded = 0
    for batch in batches:
        lengths = [len(sides[side]) for sides in batch]
        real += sum(lengths)
        padded += max(lengths) * len(lengths)
    return 1 - real / padded if padded else 0.0
