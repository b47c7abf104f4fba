"""Batches: full, of like lengths, the same for the same seed, and found again where they were."""

import random
from itertools import islice

import pytest

from regard.errors import InputError
from regard.training.batches import Batches, Example, Place, padding_fraction, process_share

COUNT, BUDGET = 503, 97


def corpus() -> list[Example]:
    draw = random.Random(7)
    return [
        (tuple([number] * draw.randint(1, 19)), tuple([number] * draw.randint(1, 19)))
        for number in range(COUNT)
    ]


def batches(**options: int) -> Batches:
    return Batches(corpus(), lambda lines: lines, BUDGET, **options)


def one_epoch(found: Batches) -> list[list[Example]]:
    epoch = found.place.epoch
    taken = []
    for batch in found:
        if found.place.epoch != epoch:
            break
        taken.append(batch)
    return taken


def numbers(taken: list[list[Example]]) -> list[int]:
    return [source[0] for batch in taken for source, _ in batch]


def test_an_epoch_has_every_example_once() -> None:
    assert sorted(numbers(one_epoch(batches()))) == list(range(COUNT))


def test_no_batch_is_larger_than_the_budget_with_its_padding() -> None:
    for batch in one_epoch(batches()):
        assert len(batch) * max(max(map(len, sides)) for sides in batch) <= BUDGET


def test_the_same_seed_gives_the_same_batches_and_another_does_not() -> None:
    assert one_epoch(batches(seed=1)) == one_epoch(batches(seed=1))
    assert one_epoch(batches(seed=1)) != one_epoch(batches(seed=2))


def test_another_epoch_has_another_order() -> None:
    both = list(islice(batches(), 2 * len(one_epoch(batches()))))
    first, second = both[: len(both) // 2], both[len(both) // 2 :]
    assert sorted(numbers(first)) == sorted(numbers(second))
    assert numbers(first) != numbers(second)


@pytest.mark.parametrize("pool", [13, 101, 1009])
def test_a_place_that_was_noted_is_found_again(pool: int) -> None:
    whole = batches(pool=pool)
    stream = iter(whole)
    list(islice(stream, 141))
    place = whole.place
    later = batches(pool=pool)
    later.resume_at(place)
    assert list(islice(stream, 31)) == list(islice(iter(later), 31))


def test_pools_are_read_one_at_a_time() -> None:
    read: list[int] = []
    lines = (read.append(1) or each for each in corpus())
    next(iter(Batches(lines, lambda raw: raw, BUDGET, pool=53)))
    assert len(read) == 53


def test_a_corpus_of_one_pool_is_encoded_once() -> None:
    calls: list[int] = []
    found = Batches(corpus(), lambda raw: calls.append(1) or raw, BUDGET)
    list(islice(found, 3 * COUNT))
    assert len(calls) == 1


def test_processes_share_a_batch_whatever_their_number() -> None:
    batch = one_epoch(batches())[0]
    for processes in (1, 2, 3):
        parts = [process_share(batch, rank, processes) for rank in range(processes)]
        assert sorted(each for part in parts for each in part) == sorted(batch)


def test_examples_that_are_too_long_are_left_out_and_counted() -> None:
    found = batches(longest=11)
    taken = one_epoch(found)
    assert max(len(side) for batch in taken for sides in batch for side in sides) == 11
    assert len(numbers(taken)) + found.skipped == COUNT


def test_buckets_hold_little_padding() -> None:
    draw = random.Random(3)
    lines = [([1] * n, [1] * n) for n in (draw.randint(3, 30) for _ in range(20_000))]
    found = Batches(lines, lambda raw: raw, 4096)
    assert padding_fraction(islice(found, 50)) < 0.03


def test_a_corpus_without_a_fitting_example_is_refused() -> None:
    with pytest.raises(InputError, match="no example of at most 3 tokens"):
        next(iter(Batches([([1] * 5,)], lambda raw: raw, BUDGET, longest=3)))


def test_the_first_place_is_the_beginning() -> None:
    assert batches().place == Place(0, 0)
