"""Which self-attention is a decoder's although no mask says so.

A causal mask or a growing cache marks a decoder. Two kinds of decoders have neither: one that reads
its first token alone, and one whose tokens are learned queries, which see each other (DETR). Both
attend to what an encoder wrote:

    encoder  picture -> picture   (64 x 64)
    ?        queries -> queries   (7 x 7, no mask)     a decoder's, because
    cross    queries -> picture   (7 x 64)             its tokens attend to those of an encoder

And some queries carry the name of the keys' stream, but are no tokens of it.
"""

from dataclasses import replace

from regard.tracing.dataflow.origins import is_learned_stream
from regard.tracing.recording.record import CallRecord

Run = list[CallRecord]


def classify_runs(runs: list[Run]) -> list[Run]:
    """The runs, with queries that are no tokens of the keys' stream, and decoders, told apart."""
    return _mark_decoders([_tell_queries_apart(run) for run in runs])


def _tell_queries_apart(run: Run) -> Run:
    """The run as cross-attention if its queries see more keys than they are, without a mask.

    They may be some tokens of the keys' stream, or tokens pooled, or learned ones that took over
    its name in a sum. Queries of a decoder with a cache have a causal mask, or are one token.
    """
    first = run[0]
    _, _, queries, keys = first.sizes
    if len(run) > 1 or first.mask is not None or not 1 < queries < keys:
        return run
    if first.query_stream is None or first.query_stream != first.key_stream:
        return run
    return [replace(first, query_stream=f"{first.query_stream} queries")]


def _mark_decoders(runs: list[Run]) -> list[Run]:
    """The runs, with the self-attention of decoders marked."""
    firsts = [run[0] for run in runs]
    encoded = {first.key_stream for first in firsts if first.is_self_attention}
    crossing = [first for first in firsts if not first.is_self_attention]
    pairs = {(first.query_stream, first.key_stream) for first in crossing}
    decoding = {
        (first.query_stream, first.sizes[2])
        for first in crossing
        if first.key_stream in encoded and (first.key_stream, first.query_stream) not in pairs
    }
    return [
        [replace(record, in_decoder=True) for record in run]
        if _has_cache(run)
        or (_may_decode(run[0]) and (run[0].query_stream, run[0].sizes[2]) in decoding)
        else run
        for run in runs
    ]


def _has_cache(run: Run) -> bool:
    """True if the keys grow from step to step, also where a picture in the prompt sees itself."""
    return run[0].is_self_attention and run[-1].keys_seen > run[0].keys_seen


def _may_decode(record: CallRecord) -> bool:
    """True for self-attention of learned queries, or of a single token."""
    is_single = record.sizes[2:] == (1, 1)
    return record.is_self_attention and (is_single or is_learned_stream(record.query_stream))
