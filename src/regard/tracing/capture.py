"""`capture`: run a model on a text, a picture or a sound, and return its attention as a trace."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from numpy.typing import NDArray
from torch import Tensor, nn

from regard.errors import InputError, UnknownNameError
from regard.tracing.inputs.reader import InputReader
from regard.tracing.inputs.runner import InputBatch, ModelRunner
from regard.tracing.watch import watch
from regard.types import Trace

MAX_BATCH = 16  # texts that are run together


@overload
def capture(
    model: nn.Module,
    processor: Any,
    inputs: str | tuple[str, str] | Tensor | NDArray[Any],
    *,
    target: str | None = None,
    generate: bool | Mapping[str, Any] | None = None,
    **options: Any,
) -> Trace: ...
@overload
def capture(
    model: nn.Module,
    processor: Any,
    inputs: list[Any],
    *,
    target: Sequence[str] | None = None,
    generate: bool | Mapping[str, Any] | None = None,
    **options: Any,
) -> list[Trace]: ...
@overload
def capture(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | Sequence[str] | None = None,
    generate: bool | Mapping[str, Any] | None = None,
    **options: Any,
) -> Any: ...
def capture(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    target: str | Sequence[str] | None = None,
    generate: bool | Mapping[str, Any] | None = None,
    **options: Any,
) -> Trace | list[Trace]:
    """The trace of a model that reads an input: one for one, a list for a list.

    An input is a text, a pair of texts, an image, a sound, a mapping of what the processor takes,
    or a mapping of tensors, which goes in as it is and may hold a batch. A decoder follows a
    `target` text, or generates: with its own settings, or with those of `generate`. The options
    are those of `watch`. The model runs without dropout, and is left as it was found.

    >>> import torch, regard
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> regard.capture(model, None, {"src": torch.randn(1, 5, 8)})
    <Trace of tokens (5): 1 map, 2 heads>
      <encoder map 'self_attn': 2 heads, 5 tokens rows x 5 tokens columns, recomputable>
    """
    _check_options(model, options)
    settings = _generation_settings(generate)
    if target is not None and settings is not None:
        raise InputError("capture follows a target or generates, not both; leave out one of them")
    run = ModelRunner(model, InputReader(processor), settings, options)
    examples = inputs if isinstance(inputs, list) else [inputs]
    if not examples:
        raise InputError("capture expected at least one input, got an empty list")
    batches = _batches(run, examples, _targets_by_input(inputs, target))
    traces = [trace for batch in batches for trace in run.traces(batch)]
    one = not isinstance(inputs, list) and len(traces) == 1
    return traces[0] if one else traces


def _check_options(model: nn.Module, options: Mapping[str, Any]) -> None:
    if not isinstance(model, nn.Module):
        raise InputError(
            f"capture expected a torch.nn.Module to run, got {type(model).__name__}; the order is "
            "model, processor, inputs"
        )
    known = [*inspect.signature(watch).parameters][1:]
    for name in options:
        if name not in known:
            raise UnknownNameError("option of capture", name, ["target", "generate", *known])
    if getattr(options.get("keep"), "gradients", False):
        raise InputError(
            "gradients need a loss, and capture has none: run the model in a block of "
            "regard.watch and call backward() inside it"
        )


def _generation_settings(generate: bool | Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The settings that the model generates with; None if it is not to generate."""
    if generate is None or generate is False:
        return None
    if generate is True:
        return {}
    if not isinstance(generate, Mapping):
        raise InputError(
            "capture expected generate=True or settings such as {'num_beams': 5}, got "
            f"{generate!r}"
        )
    return dict(generate)


def _targets_by_input(
    inputs: Any, target: str | Sequence[str] | None
) -> list[Sequence[str]] | None:
    """The target texts of each input; an input that is a batch has several."""
    if target is None:
        return None
    if not isinstance(inputs, list):
        return [[target] if isinstance(target, str) else target]
    if isinstance(target, str) or len(target) != len(inputs):
        came = "one text" if isinstance(target, str) else f"{len(target)} of them"
        raise InputError(
            f"capture expected a list of {len(inputs)} targets, one for each input, got {came}"
        )
    return [[text] for text in target]


def _batches(
    run: ModelRunner, examples: list[Any], targets: list[Sequence[str]] | None
) -> Iterator[InputBatch]:
    """The examples in batches: texts together, if the tokenizer can pad them; others one by one."""
    kinds = [run.reader.kind(example) for example in examples]
    can_pad = run.reader.can_pad(run.side)
    start = 0
    while start < len(examples):
        kind, stop = kinds[start], start + 1
        together = MAX_BATCH if can_pad and kind in ("text", "pair") else 1
        while stop < min(len(examples), start + together) and kinds[stop] == kind:
            stop += 1
        chosen = (
            None if targets is None else [each for some in targets[start:stop] for each in some]
        )
        yield InputBatch(kind, examples[start:stop], chosen)
        start = stop
