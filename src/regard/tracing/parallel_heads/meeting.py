"""Whether all processes of a group are at the end of their blocks, found out without blocking.

The store of torch.distributed holds, for each meeting, how many processes have arrived and one
decision, which is written once: "all" by the last process that arrives, or "left" by one that will
not take part or has waited too long. Every process acts on the decision, so they never disagree.

A meeting is named by the number of collective calls that the group has made. Processes that share
heads run the same model, so they have made the same number at the end of a block, also if one of
them has not watched in some block before.
"""

from collections import Counter
from datetime import timedelta

import torch.distributed as dist

from regard.tracing.head_shards import HeadShard

SECONDS = 60.0  # that a process waits at the end of its block for the others

_ALL, _LEFT = b"all", b"left"
_meetings = Counter[str]()  # that this process has been to, by group and number of calls


def agree_to_exchange(shard: HeadShard) -> bool:
    """True if all processes that share the heads are here, False if one of them will not come."""
    name = _next_meeting(shard)
    store = _store()
    decision = f"{name}/decision"
    if store.add(f"{name}/arrived", 1) == shard.size:
        return _decide(decision, _ALL) == _ALL
    try:
        store.wait([decision], timedelta(seconds=SECONDS))
    except RuntimeError:  # nobody has decided in time
        return _decide(decision, _LEFT) == _ALL
    return bytes(store.get(decision)) == _ALL


def decline_exchange(shard: HeadShard) -> None:
    """Let the others know that this process will not take part."""
    _decide(f"{_next_meeting(shard)}/decision", _LEFT)


def _next_meeting(shard: HeadShard) -> str:
    """The name of the group's next meeting, the same in all its processes."""
    ranks = "-".join(map(str, dist.get_process_group_ranks(shard.group)))
    calls = shard.group._get_sequence_number_for_group()  # type: ignore[attr-defined]
    name = f"regard/{ranks}/{calls}"
    _meetings[name] += 1
    return f"{name}/{_meetings[name]}"


def _decide(key: str, decision: bytes) -> bytes:
    """Write the decision unless there is one, and return what was decided."""
    return bytes(_store().compare_set(key, "", decision.decode()))


def _store() -> "dist.Store":
    """The key-value store by which the processes of torch.distributed found one another."""
    return dist.distributed_c10d._get_default_store()
