"""Joins the records of all processes that share the heads of a model."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from regard.tracing.head_shards import HeadShard
from regard.tracing.parallel_heads.meeting import SECONDS, agree_to_exchange, decline_exchange
from regard.tracing.parallel_heads.messages import (
    gather_bytes,
    gather_texts,
    pack_tensors,
    size_of,
    unpack_tensors,
)
from regard.tracing.parallel_heads.shares import Share, join_shares, share_of
from regard.tracing.recording.record import CallRecord
from regard.types import Gap

Run = list[CallRecord]

_ABSENT = (
    f"a process left its block of `watch` by an error, or did not reach its end within "
    f"{SECONDS:.0f} seconds; watch the model in all processes that share its heads"
)
_DIFFERENT = "the processes recorded different calls; run the same inputs in all of them"


@contextmanager
def decline_after_error(runs: Sequence[Run]) -> Iterator[None]:
    """Tell the other processes if the block ends by an error, so that they do not wait for us."""
    try:
        yield
    except BaseException:
        for shard in _shards_of(runs):
            decline_exchange(shard)
        raise


def join_parallel_heads(runs: list[Run]) -> tuple[list[Run], list[Gap]]:
    """The runs with the heads of all processes, and gaps for heads that could not be had.

    Every process that shares heads has to call this, because they exchange their records.
    """
    gaps = list[Gap]()
    for shard in _shards_of(runs):
        numbers = [number for number, run in enumerate(runs) if run[0].shard == shard]
        own = [runs[number] for number in numbers]
        reason = _ABSENT
        joined = None
        if agree_to_exchange(shard):
            reason, joined = _DIFFERENT, _exchange(own, shard)
        if joined is None:
            gaps += [_missing_heads(run[0], shard, reason) for run in own]
            joined = [[_keep_own_heads(record, shard) for record in run] for run in own]
        for number, run in zip(numbers, joined, strict=True):
            runs = [*runs[:number], run, *runs[number + 1 :]]
    return [run for run in runs if run[0].heads != ()], gaps


def _shards_of(runs: Sequence[Run]) -> list[HeadShard]:
    """The different ways in which the heads of runs are split, in the order of the runs."""
    return list(dict.fromkeys(run[0].shard for run in runs if run[0].shard is not None))


def _exchange(runs: Sequence[Run], shard: HeadShard) -> list[Run] | None:
    """The runs with the heads of all processes; None if these recorded different calls."""
    shares = [[share_of(record) for record in run] for run in runs]
    text = json.dumps(
        [
            [_describe(*pair) for pair in zip(*each, strict=True)]
            for each in zip(runs, shares, strict=True)
        ]
    )
    described = [json.loads(each) for each in gather_texts(text, shard)]
    if len({json.dumps(_without_heads(runs_there)) for runs_there in described}) > 1:
        return None
    return [
        _exchange_run(run, own, [runs_there[number] for runs_there in described], shard)
        for number, (run, own) in enumerate(zip(runs, shares, strict=True))
    ]


def _describe(record: CallRecord, share: Share) -> dict[str, Any]:
    """What a process tells the others of a record before it sends the numbers."""
    return {"site": record.site, "tensors": share.forms(), "edits": share.edits}


def _without_heads(runs: Any) -> Any:
    """The descriptions of runs without what may differ between processes: heads and edits."""
    return [
        [
            [call["site"], call["tensors"]["query"][1][0], call["tensors"]["query"][1][2:]]
            for call in run
        ]
        for run in runs
    ]


def _exchange_run(
    run: Run, own: Sequence[Share], described: Sequence[Any], shard: HeadShard
) -> Run:
    """A run with the heads of all processes, whose records of it are described."""
    forms = [[form for call in calls for form in call["tensors"].values()] for calls in described]
    sizes = [sum(map(size_of, process_forms)) for process_forms in forms]
    tensors = [tensor for share in own for tensor in share.tensors.values()]
    parts = gather_bytes(pack_tensors(tensors, shard.device), sizes, shard)
    processes = list[list[Share]]()
    for calls, process_forms, part in zip(described, forms, parts, strict=True):
        unpacked = iter(unpack_tensors(part, process_forms))
        processes.append(
            [
                Share({name: next(unpacked) for name in call["tensors"]}, call["edits"])
                for call in calls
            ]
        )
    if _are_same(processes):
        return [replace(record, shard=None) for record in run]
    return [
        join_shares(record, [shares[step] for shares in processes])
        for step, record in enumerate(run)
    ]


def _are_same(processes: Sequence[Sequence[Share]]) -> bool:
    """True if all processes had the same heads: the layer is not split, but others beside it."""
    first = processes[0]
    return all(
        torch.equal(one.tensors[name], other.tensors[name])
        for shares in processes[1:]
        for one, other in zip(first, shares, strict=True)
        for name in ("query", "weights")
        if name in one.tensors and name in other.tensors
    )


def _missing_heads(record: CallRecord, shard: HeadShard, reason: str) -> Gap:
    """The gap of the heads that other processes have."""
    heads = record.sizes[1]
    first = shard.rank * heads
    return Gap(
        record.site,
        f"its map has the heads {first} to {first + heads - 1} of {heads * shard.size}, those of "
        f"this process, because {reason}",
    )


def _keep_own_heads(record: CallRecord, shard: HeadShard) -> CallRecord:
    """The record with the heads of this process, known by their indices in the model."""
    count = record.sizes[1]
    first = shard.rank * count
    chosen = record.heads
    if chosen is not None:
        chosen = tuple(head - first for head in chosen if first <= head < first + count)
    own = tuple(range(first, first + count))
    return replace(record, shard=None, heads=chosen, head_indices=own)
