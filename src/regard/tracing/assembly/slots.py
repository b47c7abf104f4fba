"""Keys that are tokens and, behind them, slots into which a model has compressed earlier tokens.

The data flow may name one stream for both, and then the slots would pass for tokens that came
before. The mask of a prompt tells them apart: each token sees itself in its own column, and none
between its own and the first slot.

    queries x keys    4 x 6    1 . . . | . .      a cache of 2 tokens    1 1 1 . . .
                               1 1 . . | . .      would look so:         1 1 1 1 . .
                               1 1 1 . | 1 .                             1 1 1 1 1 .
                               1 1 1 1 | 1 1                             1 1 1 1 1 1

Columns of the first kind are a stream of their own. Later decoding steps at the site become a gap:
their last keys are slots, so nothing tells which keys are new.
"""

from dataclasses import replace

from torch import Tensor

from regard.masks import Area
from regard.tracing.recording.record import CallRecord
from regard.types import Gap

Run = list[CallRecord]

SLOTS = " and slots"  # ends the name of a stream of tokens and slots
_STEPS = (
    "its decoding steps attend to tokens and to slots into which earlier ones are compressed, "
    "and nothing tells which of their keys are which; read the whole text in one call"
)


def tell_slots_apart(runs: list[Run]) -> tuple[list[Run], tuple[Gap, ...]]:
    """The runs with slots told apart from tokens, and gaps for steps that cannot be read."""
    found = {run[0].run_key for run in runs if has_slots(run[0])}
    if not found:
        return runs, ()
    kept, gaps = list[Run](), dict[str, Gap]()
    for run in runs:
        first = run[0]
        if first.run_key not in found or first.sizes[2] == first.sizes[3]:
            kept.append(run)
            continue
        if has_slots(first):
            kept.append([replace(first, key_stream=f"{first.key_stream}{SLOTS}")])
        if len(run) > 1 or not has_slots(first):
            gaps[first.site] = Gap(first.site, _STEPS)
    return kept, tuple(gaps.values())


def has_slots(record: CallRecord) -> bool:
    """True if the keys of a call are as many tokens as queries, and slots behind them."""
    _, _, queries, keys = record.sizes
    if not 1 < queries < keys or record.mask is None or record.is_causal:
        return False
    if record.query_stream is None or record.query_stream != record.key_stream:
        return False
    area = Area(range(queries), range(keys), keys - queries, record.query.device)
    visible = record.mask.cut(area).expand(-1, -1, queries, keys)
    if visible[..., :queries].triu(1).any():
        return False
    return _sees_diagonal(visible, 0) and not _sees_diagonal(visible, keys - queries)


def _sees_diagonal(visible: Tensor, offset: int) -> bool:
    """True if each query sees the key at its own place; padding, which nobody sees, aside."""
    queries = visible.shape[2]
    is_hidden = ~visible.any(2)[..., offset : offset + queries]
    return bool((visible.diagonal(offset, dim1=2, dim2=3) | is_hidden).all())
