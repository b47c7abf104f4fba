"""From any running model to traces; the only package that sets hooks and torch function modes.

`watch(model)` is a block around a model that runs; `capture(model, processor, text)` runs it too.
Neither rebuilds the model: a torch function mode (`watcher.Watcher`) sees every torch function that
the model calls, and records those that attend. What cannot be mapped becomes a gap with its reason.

The path of one attention call through the sub-packages, each of which opens with an example:

    sites.py        which module is running: the name of the site
    dataflow        which stream each tensor comes from; a softmax written by hand is recognised
    mask_reading    a dense mask, or a rule on indices, becomes a short description
    recording       the call is described, observed by a kernel, edited: a `CallRecord`
    huggingface     the same for the mask and attention functions of transformers
    parallel_heads  heads that tensor parallelism split over processes are joined
    assembly        records of decoding steps are stacked, and cut into one trace for each example
    inputs          from texts, pictures and sounds to what the model takes, and tokens to labels
    statistics      sums over many examples instead of traces

They import one another in one direction only; tests/project/test_imports.py holds the order.
`fast_paths.py` turns off two fast paths of torch whose calls would be hidden; `readable.py` tells
where tensors have no numbers; `dtensors.py` and `head_shards.py` tell which are split over
processes; `open_watchers.py` lets several blocks be open in one thread; `failures.py` lets the
model run on where regard itself fails; `graph_sites.py` names the sites of models that were
exported as one graph; `inner_calls.py` enters functions that attend inside, and
`child_threads.py` the threads that a model starts.

    >>> import torch, regard
    >>> encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    >>> with regard.watch(encoder) as watched:
    ...     _ = encoder(torch.randn(3, 5, 8))
    >>> len(watched), watched[0].maps[0].site, watched[0].maps[0].shape
    (3, 'self_attn', (2, 5, 5))
"""

from regard.tracing.capture import capture
from regard.tracing.recording import aten_attention as _aten  # noqa: F401  registers aten's
from regard.tracing.recording import flex as _flex  # noqa: F401  registers flex_attention's
from regard.tracing.recording import sdpa as _sdpa  # noqa: F401  registers torch's own taps
from regard.tracing.recording.edits import AttentionCall, Edit, knock_out, patch, uniform
from regard.tracing.recording.options import Keep
from regard.tracing.watch import Watched, watch

__all__ = [
    "AttentionCall",
    "Edit",
    "Keep",
    "Watched",
    "capture",
    "knock_out",
    "patch",
    "uniform",
    "watch",
]
