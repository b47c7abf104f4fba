"""Running a model on windows in batches: its logits, and the trace of the same run."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import InputError, RegardError, first_line
from regard.loading import LoadedModel
from regard.tracing import watch
from regard.tracing.inputs.encodings import Text
from regard.tracing.inputs.reader import InputReader
from regard.tracing.inputs.runner import InputBatch, ModelRunner, evaluation_mode
from regard.types import Gap, Tokens, Trace

__all__ = ["WindowRun", "run_model", "run_picture"]

_BATCH = 16  # windows that are run together


class WindowRun(NamedTuple):
    """What a model did with one window: the tokens that it read, its logits, and the trace."""

    tokens: Tokens
    logits: Tensor
    trace: Trace | None


def run_model(
    loaded: LoadedModel,
    windows: Sequence[Text],
    read_logits: Callable[[Any], Tensor],
    *,
    trace: bool,
) -> list[WindowRun]:
    """The runs of all windows (texts, or pairs of question and text) in their order.

    `read_logits` takes what the model returned and gives its logits, batch first.
    """
    runner = ModelRunner(loaded.model, InputReader(loaded.processor), None, {})
    # a model whose tokenizer pads on the left, such as XLNet, may read its class from the last
    # position, where padding on the right would stand: its windows are run one by one
    pads_right = getattr(loaded.tokenizer, "padding_side", "right") == "right"
    batch_size = _BATCH if pads_right and runner.reader.can_pad(runner.side) else 1
    # windows of similar length share a batch, so that little of it is padding
    order = sorted(range(len(windows)), key=lambda index: len("".join(windows[index])))
    runs: dict[int, WindowRun] = {}
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        batch = [windows[index] for index in indices]
        results = _run_batch(loaded, runner, batch, read_logits, trace=trace)
        runs |= dict(zip(indices, results, strict=True))
    return [runs[index] for index in range(len(windows))]


def run_picture(
    loaded: LoadedModel, picture: Any, read_logits: Callable[[Any], Tensor], *, trace: bool
) -> WindowRun:
    """The run of one picture, a Pillow image; of a model without attention the trace is empty."""
    runner = ModelRunner(loaded.model, InputReader(loaded.processor), None, {})
    try:
        (run,) = _run_batch(loaded, runner, [picture], read_logits, trace=trace)
    except InputError:
        if not trace:
            raise
        # it raises again unless it was the watching that failed, as in a ConvNeXt
        (run,) = _run_batch(loaded, runner, [picture], read_logits, trace=False)
        gap = Gap(type(loaded.model).__name__, "nothing in it attends")
        return run._replace(trace=Trace({}, (), (gap,)))
    return run


def _run_batch(
    loaded: LoadedModel,
    runner: ModelRunner,
    windows: list[Any],
    read_logits: Callable[[Any], Tensor],
    *,
    trace: bool,
) -> list[WindowRun]:
    """The runs of one batch; an error inside a model of transformers names the model."""
    kind = runner.reader.kind(windows[0])
    try:
        encoded, arguments, labels = runner.prepare_batch(InputBatch(kind, windows), spelled=trace)
        if getattr(getattr(loaded.model, "config", None), "types", None) == 0:
            # a Transformer of ours that tells question and text apart by their separator alone
            arguments.pop("token_type_ids", None)
        with ExitStack() as stack:
            stack.enter_context(evaluation_mode(loaded.model))
            stack.enter_context(torch.no_grad())
            seen = stack.enter_context(watch(loaded.model, atlas=0)) if trace else None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of transformers, about padding and the like
                logits = read_logits(runner.forward(arguments))
            if seen is not None and labels is not None:
                seen.set_labels(labels)
    except RegardError:
        raise
    except Exception as error:
        if loaded.native:
            raise
        what = "text" if kind in ("text", "pair") else "input"
        raise InputError(
            f"{loaded.name} cannot run on this {what} ({first_line(error)})"
        ) from error
    if seen is not None and len(seen) != len(windows) > 1:
        # the model mixes the examples of a batch, as Longformer's chunks do
        alone = ([window] for window in windows)
        runs = (_run_batch(loaded, runner, each, read_logits, trace=True) for each in alone)
        return [run for (run,) in runs]
    traces: Sequence[Trace | None] = [None] * len(windows) if seen is None else seen[:1] or [None]
    if seen is not None and len(seen) == len(windows):
        traces = [*seen]
    rows = zip(encoded.tokens, logits.float().cpu(), traces, strict=True)
    return [WindowRun(tokens or Tokens(()), row, own_trace) for tokens, row, own_trace in rows]
