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
    """The arguments of one example (a batch of one), its tokens and their labels.

    `told` are the labels that `watch` needs to name rows and columns. `written` are the ids that a
    decoder predicts, one for each of its rows: those of the target text, or those that the model
    generated. It is None for a model without a decoder.
    """

    arguments: dict[str, Any]
    tokens: Tokens | None
    told: TokenLabels
    written: Int[Tensor, " row"] | None = None

    @property
    def held(self) -> str | None:
        """The name of the argument that holds the input tokens, as ids or as vectors.

        The second axis of that argument is the tokens. None if there is none, as for pictures.
        """
        for name in ("input_ids", *self.arguments):
            value = self.arguments.get(name)
            is_other = name.startswith("decoder_") or name in NON_TEXT_ARGUMENTS
            if isinstance(value, Tensor) and not is_other and len(value) == 1 and _is_text(value):
                return name
        return None

    @property
    def decodes(self) -> bool:
        """True if the model has a decoder that reads its own tokens, besides the input tokens."""
        return "decoder_input_ids" in self.arguments


def prepare_example(
    model: nn.Module, processor: Any, inputs: Any, *, target: str | None = None
) -> PreparedExample:
    """One input as the model's forward takes it.

    An encoder-decoder reads the target text (teacher forcing). Without a target, it first generates
    one by greedy decoding.

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
    encoded, arguments, labels = ModelRunner(model, reader, None, {}).prepare_batch(batch)
    if len(encoded.tokens) != 1:
        raise InputError(
            f"expected one example, got a batch of {len(encoded.tokens)}; give them one by one"
        )
    tokens = encoded.tokens[0]
    if labels is None:
        labels, arguments = _generate_target(model, reader, arguments, tokens)
    example = PreparedExample(arguments, tokens, labels, _predicted_ids(arguments, labels))
    if tokens is None and example.held is not None:
        # inputs that came as tensors have no texts: their tokens are called by position
        tokens = Tokens.positions(arguments[example.held].shape[1])
    return PreparedExample(arguments, tokens, labels, example.written)


def run_forward(
    model: nn.Module,
    arguments: Mapping[str, Any],
    *,
    edit: EditFunction | None = None,
    sites: SitePatterns = None,
) -> Any:
    """The model's output, without dropout and gradients; with `edit`, under these edits.

    Edits need `watch`, which also computes statistics. `sites` selects the sites that it observes:
    fewer are faster.

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
    """The model's output for the example, and its trace; the options are those of `watch`."""
    run = ModelRunner(model, InputReader(None), None, {})
    with evaluation_mode(model), torch.no_grad(), watch(model, **options) as seen:
        with explain_index_errors(model):
            output = run.forward(example.arguments)
        seen.set_labels(example.told)
    return output, seen[0]


def _is_text(argument: Tensor) -> bool:
    """True for ids (batch token) and for embedded tokens (batch token dim)."""
    return argument.dim() == 3 if argument.is_floating_point() else argument.dim() == 2


def _generate_target(
    model: nn.Module, reader: InputReader, arguments: dict[str, Any], tokens: Tokens | None
) -> tuple[TokenLabels, dict[str, Any]]:
    """Let the model generate greedily; the labels, and the arguments that repeat it in one pass."""
    with evaluation_mode(model), torch.no_grad(), explain_index_errors(model):
        decoded = generate_ids(model, arguments, GREEDY, 1)
    ids = [*decoded.prompt[0], *decoded.produced[0]]
    target = reader.target_namer.prepend_start(ids[0], reader.target_namer.name_ids(ids[1:]))
    streams = {"source": tokens, "target": target}
    labels = TokenLabels(
        ({name: stream for name, stream in streams.items() if stream is not None},)
    )
    device = next(model.parameters()).device
    return labels, arguments | {"decoder_input_ids": torch.tensor([ids[:-1]], device=device)}


def _predicted_ids(arguments: Mapping[str, Any], labels: TokenLabels) -> Tensor | None:
    """The id that follows each id which the decoder reads; None if they are not known."""
    inputs, target = arguments.get("decoder_input_ids"), labels.tokens[0].get("target")
    if inputs is None or target is None or target.ids is None:
        return None
    if len(target) != inputs.shape[1] + 1:
        return None
    return torch.tensor(target.ids[1:], device=inputs.device)
