"""Gradient x input, and traces with the gradients that Chefer's relevance needs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attribution.clean_run import CleanRun
from regard.attribution.objectives import Objective, logit
from regard.errors import InputError
from regard.tracing import Keep, watch
from regard.tracing.gradients import InputGradient, gradients_enabled, input_gradients
from regard.tracing.inputs.example import PreparedExample, prepare_example
from regard.types import Trace


def capture_gradients(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    objective: Objective | None = None,
    target: str | None = None,
    **options: Any,
) -> Trace:
    """The trace of a model with values, and the gradient of an objective by each head's context.

    Without an objective it is the largest logit, of the classes or of the last position; `logit`
    makes other ones. An encoder-decoder is given a `target`, or else what it generates by itself.
    The input is one that `capture` takes, the options are those of `watch`. Gradients of parameters
    are neither made nor changed.

    >>> import torch
    >>> from regard.attribution import capture_gradients
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> inputs = {"src": torch.randn(1, 5, 8)}
    >>> trace = capture_gradients(model, None, inputs, objective=lambda output: output[0, 0].sum())
    >>> trace["self_attn"].gradient.shape
    torch.Size([2, 5, 4])
    """
    example = prepare_example(model, processor, inputs, target=target)
    return example_gradients(model, example, objective or logit(), **options)


def example_gradients(
    model: nn.Module, example: PreparedExample, objective: Objective, **options: Any
) -> Trace:
    """The trace of an example that is ready to run, with values and gradients."""
    keep = replace(Keep.of(options.pop("keep", "windows")), values=True, gradients=True)
    with gradients_enabled(model), watch(model, keep=keep, **options) as watched:
        input_gradients(model, example.arguments, objective)
        watched.set_labels(example.told)
    return watched[0]


def gradient_times_input(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    objective: Objective | None = None,
    *,
    target: str | None = None,
) -> Float[Tensor, " token"]:
    """The gradient by each token's embedding times that embedding (Denil et al. 2014).

    To first order it is how much the objective would fall if the token's embedding were zero, so
    tokens that lower it have negative values. Of an encoder-decoder the tokens are the source's.

    >>> import torch
    >>> from regard.attribution import gradient_times_input
    >>> model = torch.nn.Embedding(7, 3)
    >>> ids = torch.tensor([[5, 2]])
    >>> found = gradient_times_input(model, None, {"input": ids}, lambda output: output[0, 0].sum())
    >>> bool(found[0] == model.weight[5].sum()), float(found[1])
    (True, 0.0)
    """
    arguments = prepare_example(model, processor, inputs, target=target).arguments
    with gradients_enabled(model):
        gradients = input_gradients(model, arguments, objective or logit())
    of_tokens = _gradients_of_tokens(gradients, _input_ids(arguments))
    if not of_tokens:
        raise InputError(
            f"{type(model).__name__} embeds none of its input's ids by a torch.nn.Embedding, so "
            "that its tokens have no gradients; give their vectors as inputs_embeds"
        )
    total = torch.stack([_product(*each) for each in of_tokens]).sum(dim=0)
    mask = arguments.get("attention_mask")
    return total if mask is None or mask.shape != (1, len(total)) else total[mask[0].bool()]


def token_gradients(run: CleanRun) -> Float[Tensor, " token"]:
    """Gradient x input of the run's objective for each token."""
    arguments = dict(run.example.arguments)
    return gradient_times_input(run.model, None, arguments, lambda output: run.objective(output)[0])


def _input_ids(arguments: Mapping[str, Any]) -> Tensor | None:
    """The ids that the model reads, of the encoder where there is one; None without ids."""
    integers = [
        value
        for name, value in arguments.items()
        if isinstance(value, Tensor) and not value.is_floating_point() and "mask" not in name
    ]
    first: Tensor | None = arguments.get("input_ids", next(iter(integers), None))
    return first


def _gradients_of_tokens(gradients: list[InputGradient], ids: Tensor | None) -> list[InputGradient]:
    """The gradients by the input's own tokens, not by positions or token types.

    They are those of embeddings that were called with the very tensor of ids; else, if the model
    copied it, with equal ids; without ids, of the first argument of vectors.
    """
    if ids is None:
        return [each for each in gradients if each.ids is None and each.vectors.dim() == 3][:1]
    embedded = [(each, each.ids) for each in gradients if each.ids is not None]
    same = [each for each, own in embedded if own.data_ptr() == ids.data_ptr()]
    equal = [each for each, own in embedded if torch.equal(own.flatten(), ids.flatten())]
    return same or equal[:1]


def _product(
    ids: Tensor | None, vectors: Tensor, gradient: Tensor | None
) -> Float[Tensor, " token"]:
    """The sum over the embedding's dimensions of gradient times vector."""
    flat = vectors.detach().flatten(0, -2)
    if gradient is None:
        return flat.new_zeros(len(flat))
    return (flat * gradient.flatten(0, -2)).sum(dim=-1)
