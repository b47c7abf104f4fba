"""One example as a model's forward takes it, for studies that run it again with changes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.errors import InputError
from regard.tracing.assembly.token_labels import TokenLabels
from regard.tracing.inputs.generation import generate_ids
from regard.tracing.inputs.reader import InputReader
from regard.tracing.inputs.runner import (
    InputBatch,
    ModelRunner,
    evaluation_mode,
    explain_index_errors,
)
from regard.tracing.recording.edits import EditFunction
from regard.tracing.recording.site_choice import SitePatterns
from regard.tracing.watch import watch
from regard.types import Tokens, Trace

GREEDY = {"num_beams": 1, "do_sample": False}
NON_TEXT_ARGUMENTS = {"input_features", "input_values", "pixel_values"}  # of sounds and pictures


@dataclass(frozen=True, eq=False)
class PreparedExample:
    """The arguments of one example, a batch of one, and what is known of its tokens.

    `written` are the ids that the rows of a decoder are to lead to, where it follows a
    target or what it wrote by itself.
    """

    arguments: dict[str, Any]
    tokens: Tokens | None
    told: TokenLabels
    written: Int[Tensor, " row"] | None = None

    @property
    def held(self) -> str | None:
        """The argument whose second axis is the tokens, ids or vectors; None as for pictures."""
        for name in ("input_ids", *self.arguments):
            each = self.arguments.get(name)
            beside = name.startswith("decoder_") or name in NON_TEXT_ARGUMENTS
            if isinstance(each, Tensor) and not beside and len(each) == 1 and _is_text(each):
                return name
        return None

    @property
    def decodes(self) -> bool:
        """Whether a decoder reads something of its own beside the tokens."""
        return "decoder_input_ids" in self.arguments


def prepare_example(
    model: nn.Module, processor: Any, inputs: Any, *, target: str | None = None
) -> PreparedExample:
    """One input as the model's forward takes it.

    A decoder with an encoder follows the target text, or what it writes by itself, greedily.

    >>> import torch
    >>> from regard.tracing.inputs.example import prepare_example
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> prepare_example(model, None, {"src": torch.randn(1, 5, 8)}).tokens
    Tokens(0 .. 4)
    """
    if not isinstance(model, nn.Module):
        raise InputError(
            f"expected a torch.nn.Module to run, got {type(model).__name__}; the order is model, "
            "processor, inputs"
        )
    reader = InputReader(processor)
    batch = InputBatch(reader.kind(inputs), [inputs], None if target is None else [target])
    encoded, arguments, told = ModelRunner(model, reader, None, {}).prepare_batch(batch)
    if len(encoded.tokens) != 1:
        raise InputError(
            f"expected one example, got a batch of {len(encoded.tokens)}; give them one by one"
        )
    tokens = encoded.tokens[0]
    if told is None:
        told, arguments = _written(model, reader, arguments, tokens)
    example = PreparedExample(arguments, tokens, told, _led_to(arguments, told))
    if tokens is None and example.held is not None:
        tokens = Tokens.positions(arguments[example.held].shape[1])
    return PreparedExample(arguments, tokens, told, example.written)


def run_forward(
    model: nn.Module,
    arguments: Mapping[str, Any],
    *,
    edit: EditFunction | None = None,
    sites: SitePatterns = None,
) -> Any:
    """What the model gives, without dropout and gradients; with `edit`, while it is watched.

    `sites` chooses those of which statistics are made on the way: fewer are faster.

    >>> import torch
    >>> from regard.tracing import knock_out
    >>> from regard.tracing.inputs.example import run_forward
    >>> attention = torch.nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
    >>> sides = dict.fromkeys(["query", "key", "value"], torch.randn(1, 5, 8))
    >>> run_forward(attention, sides, edit=knock_out("*"))[0].abs().max()
    tensor(0.)
    """
    run = ModelRunner(model, InputReader(None), None, {})
    with evaluation_mode(model), torch.no_grad(), explain_index_errors(model):
        if edit is None:
            return run.forward(arguments)
        with watch(model, edit=edit, sites=sites, keep="summary", atlas=0):
            return run.forward(arguments)


def trace_example(model: nn.Module, example: PreparedExample, **options: Any) -> tuple[Any, Trace]:
    """What the model gives for the example, and the trace of it; the options are `watch`'s."""
    run = ModelRunner(model, InputReader(None), None, {})
    with evaluation_mode(model), torch.no_grad(), watch(model, **options) as seen:
        with explain_index_errors(model):
            output = run.forward(example.arguments)
        seen.set_labels(example.told)
    return output, seen[0]


def _is_text(each: Tensor) -> bool:
    return each.dim() == 3 if each.is_floating_point() else each.dim() == 2


def _written(
    model: nn.Module, reader: InputReader, arguments: dict[str, Any], tokens: Tokens | None
) -> tuple[TokenLabels, dict[str, Any]]:
    """What the model writes by itself, and the arguments with which it is made to write it."""
    with evaluation_mode(model), torch.no_grad(), explain_index_errors(model):
        decoded = generate_ids(model, arguments, GREEDY, 1)
    ids = [*decoded.prompt[0], *decoded.produced[0]]
    target = reader.target_namer.prepend_start(ids[0], reader.target_namer.name_ids(ids[1:]))
    streams = {"source": tokens, "target": target}
    told = TokenLabels(({name: each for name, each in streams.items() if each is not None},))
    device = next(model.parameters()).device
    return told, arguments | {"decoder_input_ids": torch.tensor([ids[:-1]], device=device)}


def _led_to(arguments: Mapping[str, Any], told: TokenLabels) -> Tensor | None:
    """The ids that follow those which a decoder reads, where they are known."""
    read, target = arguments.get("decoder_input_ids"), told.tokens[0].get("target")
    if read is None or target is None or target.ids is None or len(target) != read.shape[1] + 1:
        return None
    return torch.tensor(target.ids[1:], device=read.device)
