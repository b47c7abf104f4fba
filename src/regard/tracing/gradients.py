"""Gradients of one number of a model's output by the vectors that the model starts from.

The vectors are the outputs of every `torch.nn.Embedding`, and the floating-point arguments (images,
audio, embeddings). A forward hook replaces each embedding's output by a copy that is a leaf of the
graph; this is the only place outside `watch` that sets hooks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import InputError
from regard.tracing.inputs.reader import InputReader
from regard.tracing.inputs.runner import ModelRunner, evaluation_mode, explain_index_errors


class InputGradient(NamedTuple):
    """Input vectors, the ids that they embed, and the gradient by them.

    `ids` is None for floating-point arguments; `gradient` is None where the output does not depend
    on the vectors.
    """

    ids: Tensor | None
    vectors: Tensor
    gradient: Tensor | None = None


def input_gradients(
    model: nn.Module, arguments: Mapping[str, Any], objective: Callable[[Any], Tensor]
) -> list[InputGradient]:
    """Run the model once and differentiate `objective(output)` by every input vector.

    Call it inside `gradients_enabled(model)`. Gradients of parameters are neither made nor changed.

    >>> import torch
    >>> from regard.tracing.gradients import gradients_enabled, input_gradients
    >>> model, ids = torch.nn.Embedding(7, 3), torch.tensor([[5, 2]])
    >>> with gradients_enabled(model):
    ...     (found,) = input_gradients(model, {"input": ids}, lambda output: output[0, 0].sum())
    >>> found.gradient
    tensor([[[1., 1., 1.],
             [0., 0., 0.]]])
    """
    with _embeddings_as_leaves(model) as leaves, explain_index_errors(model):
        output = ModelRunner(model, InputReader(None), None, {}).forward(
            _arguments_as_leaves(arguments, leaves)
        )
    value = objective(output)
    _check_objective(value, leaves, model)
    vectors = [leaf.vectors for leaf in leaves]
    gradients = torch.autograd.grad(value, vectors, allow_unused=True)
    pairs = zip(leaves, gradients, strict=True)
    return [leaf._replace(gradient=gradient) for leaf, gradient in pairs]


@contextmanager
def gradients_enabled(model: nn.Module) -> Iterator[None]:
    """Run the model without dropout and with gradients, even where the caller turned them off."""
    with evaluation_mode(model), torch.inference_mode(False), torch.enable_grad():
        yield


@contextmanager
def _embeddings_as_leaves(model: nn.Module) -> Iterator[list[InputGradient]]:
    """Collect the outputs of all embeddings while the block runs, as leaves of the graph."""
    leaves = list[InputGradient]()

    def replace_output(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Tensor | None:
        ids = next(iter((*args, *kwargs.values())), None)
        # an embedding of positions may be called with a length instead of ids
        return _add_leaf(leaves, ids, output) if isinstance(ids, Tensor) else None

    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    handles = [
        module.register_forward_hook(replace_output, with_kwargs=True) for module in embeddings
    ]
    try:
        yield leaves
    finally:
        for handle in handles:
            handle.remove()


def _arguments_as_leaves(
    arguments: Mapping[str, Any], leaves: list[InputGradient]
) -> dict[str, Any]:
    """The arguments, with images, audio and vectors as leaves of the graph."""
    return {
        name: _add_leaf(leaves, None, value)
        if isinstance(value, Tensor) and value.is_floating_point() and "mask" not in name
        else value
        for name, value in arguments.items()
    }


def _add_leaf(leaves: list[InputGradient], ids: Tensor | None, vectors: Tensor) -> Tensor:
    leaf = vectors.detach().requires_grad_()
    leaves.append(InputGradient(ids, leaf))
    return leaf.clone()  # torch forbids writing to a leaf in place, and a model may do so


def _check_objective(value: Any, leaves: Sequence[InputGradient], model: nn.Module) -> None:
    if not leaves:
        raise InputError(
            f"{type(model).__name__} was given ids that no torch.nn.Embedding reads, so nothing "
            "has a gradient; give vectors as inputs_embeds"
        )
    if not isinstance(value, Tensor) or value.numel() != 1:
        found = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else None
        raise InputError(
            "the objective should make one number of what the model gives, got "
            f"{found or type(value).__name__}"
        )
    if not value.requires_grad:
        raise InputError(
            "the objective does not depend on the input by gradients: the model or the objective "
            "detaches, rounds or counts on the way"
        )
