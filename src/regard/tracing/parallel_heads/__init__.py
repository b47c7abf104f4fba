"""Heads that tensor parallelism split over processes, joined into whole records.

Each process of a tensor-parallel model runs some heads of each layer and records them. When the
block of `watch` ends, the processes exchange their records, and every one of them gets the traces
of all heads, as if the model had run whole. There is one rule: all or none. If a process does not
reach the end of its block, by an error or because it did not watch, nobody waits for it for ever:
the others keep their own heads, under their indices in the model, and a gap says which are missing.

Example: 6 heads over 2 processes, one layer, 7 tokens.

    record of process 0     query (1, 3, 7, 4), key (1, 1, 7, 4), shard of rank 0
    record of process 1     query (1, 3, 7, 4), key (1, 1, 7, 4), shard of rank 1
    agree_to_exchange       True in both: both are at the end of their blocks
    gather_texts            what each has: '[{"site": "h.0.attn", "tensors": {"query": ...}}]'
    gather_bytes            the numbers, one message for each run of records
    join_records            query (1, 6, 7, 4), key (1, 2, 7, 4): heads 0 to 2 share key head 0

- `meeting.py`: the processes find out, by the key-value store of torch.distributed, whether all of
  them will take part. A collective call that one process does not reach would block the others.
- `messages.py`: texts and tensors of different sizes, gathered as bytes; nothing is pickled.
- `shares.py`: a record as named tensors with an axis of heads, and back.
- `join.py`: calls these for all records of a block. Where all processes computed the same heads
  (a layer that is not split), the record stays as it is.

`watch.watch` calls `join_parallel_heads` before it assembles traces.
"""
