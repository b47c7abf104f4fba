"""A model run once with gradients: how an objective depends on heads' contexts and on tokens."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError
from regard.tracing import Keep, watch
from regard.tracing.inputs.example import prepare
from regard.tracing.inputs.reader import Reader
from regard.tracing.inputs.runner import Run, at_rest, in_range
from regard.types import Trace

Objective = Callable[[Any], Tensor]  # from what a model gives to the number that is asked about


class Leaf(NamedTuple):
    """Vectors with which a run began: those of ids, or numbers that the model was given."""

    ids: Tensor | None
    vectors: Tensor


Slope = tuple[Leaf, Tensor | None]  # vectors, and the gradient of the objective by them


def gradients(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    *,
    objective: Objective | None = None,
    target: str | None = None,
    **options: Any,
) -> Trace:
    """The trace of a model with values, and the gradient of an objective by each head's context.

    The objective makes one number of what the model gives: without one it is the largest logit, of
    the classes or of the last position; `logit(choice, place)` is that of another. An
    encoder-decoder follows a `target`, or what it writes by itself. The input is one that `capture`
    takes, the options are those of `watch`. Gradients of parameters are neither made nor changed.

    >>> import torch
    >>> from regard.attribution.gradients import gradients
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> inputs = {"src": torch.randn(1, 5, 8)}
    >>> trace = gradients(model, None, inputs, objective=lambda output: output[0, 0].sum())
    >>> trace["self_attn"].gradient.shape
    torch.Size([2, 5, 4])
    """
    keep = replace(Keep.of(options.pop("keep", "windows")), values=True, gradients=True)
    example = prepare(model, processor, inputs, target=target)
    with _learning(model), watch(model, keep=keep, **options) as seen:
        _slopes(model, example.arguments, objective or logit())
        seen.set_labels(example.told)
    return seen[0]


def input_saliency(
    model: nn.Module,
    processor: Any,
    inputs: Any,
    objective: Objective | None = None,
    *,
    target: str | None = None,
) -> Float[Tensor, " token"]:
    """Gradient x input of each token: the sum over its embedding's numbers (Denil et al. 2014).

    To first order it is how much the objective would fall if the token's embedding were zero;
    tokens that speak against it are negative. Of an encoder-decoder they are the source's.

    >>> import torch
    >>> from regard.attribution.gradients import input_saliency
    >>> model = torch.nn.Embedding(7, 3)
    >>> ids = torch.tensor([[5, 2]])
    >>> found = input_saliency(model, None, {"input": ids}, lambda output: output[0, 0].sum())
    >>> bool(found[0] == model.weight[5].sum()), float(found[1])
    (True, 0.0)
    """
    arguments = prepare(model, processor, inputs, target=target).arguments
    with _learning(model):
        slopes = _slopes(model, arguments, objective or logit())
    chosen = _of_tokens(slopes, _ids(arguments))
    if not chosen:
        raise InputError(
            f"{type(model).__name__} embeds none of its input's ids by a torch.nn.Embedding, so "
            "that its tokens have no gradients; give their vectors as inputs_embeds"
        )
    found = torch.stack([_product(*each) for each in chosen]).sum(dim=0)
    mask = arguments.get("attention_mask")
    return found if mask is None or mask.shape != (1, len(found)) else found[mask[0].bool()]


def logit(choice: int | None = None, place: int = -1) -> Objective:
    """The objective that is one logit: of a class, or of a token after the one at `place`.

    Without a choice it is the largest of them.

    >>> import torch
    >>> from regard.attribution.gradients import logit
    >>> logit(1)(torch.tensor([[3.0, 5.0]])), logit(place=0)(torch.tensor([[[2.0, 7.0], [9, 9]]]))
    (tensor(5.), tensor(7.))
    """
    return partial(_logit, choice=choice, place=place)


def _logit(output: Any, choice: int | None, place: int) -> Tensor:
    found = getattr(output, "logits", output)
    found = found[0] if isinstance(found, tuple | list) and found else found
    if not isinstance(found, Tensor) or found.dim() not in (2, 3) or len(found) != 1:
        raise InputError(
            f"expected logits with the axes (1 class) or (1 token vocab), got {_named(found)}; "
            "give an objective that makes one number of what the model gives"
        )
    rows = found[0] if found.dim() == 3 else found
    if not -len(rows) <= place < len(rows):
        raise InputError(f"expected a place within the {len(rows)} tokens, got {place}")
    row = rows[place]
    if choice is not None and not -len(row) <= choice < len(row):
        raise InputError(f"expected a choice of {len(row)} logits, got {choice}")
    return row.max() if choice is None else row[choice]


def _slopes(model: nn.Module, arguments: dict[str, Any], objective: Objective) -> list[Slope]:
    """The gradient of the objective by each leaf of a run; None if it makes no difference."""
    with _leaves(model) as leaves, in_range(model):
        output = Run(model, Reader(None), None, {}).forward(_grown(arguments, leaves))
    value = objective(output)
    _check(value, leaves, model)
    found = torch.autograd.grad(value, [each.vectors for each in leaves], allow_unused=True)
    return list(zip(leaves, found, strict=True))


def _grown(arguments: dict[str, Any], leaves: list[Leaf]) -> dict[str, Any]:
    """The arguments, those that are pictures, sounds or vectors as leaves."""
    given = dict(arguments)
    for name, each in given.items():
        if isinstance(each, Tensor) and each.is_floating_point() and "mask" not in name:
            given[name] = _grow(leaves, None, each)
    return given


@contextmanager
def _learning(model: nn.Module) -> Iterator[None]:
    """The model without dropout and with gradients, wherever the caller has turned them off."""
    with at_rest(model), torch.inference_mode(False), torch.enable_grad():
        yield


@contextmanager
def _leaves(model: nn.Module) -> Iterator[list[Leaf]]:
    """What embeddings give while the block runs, made leaves of the graph."""
    found = list[Leaf]()

    def grown(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Tensor | None:
        ids = next(iter((*args, *kwargs.values())), None)
        # an embedding of positions may be asked by a length alone
        return _grow(found, ids, output) if isinstance(ids, Tensor) else None

    tables = [each for each in model.modules() if isinstance(each, nn.Embedding)]
    handles = [each.register_forward_hook(grown, with_kwargs=True) for each in tables]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _grow(leaves: list[Leaf], ids: Tensor | None, vectors: Tensor) -> Tensor:
    leaf = vectors.detach().requires_grad_()
    leaves.append(Leaf(ids, leaf))
    return leaf.clone()  # a leaf itself cannot be written in place


def _check(value: Any, leaves: Sequence[Leaf], model: nn.Module) -> None:
    if not leaves:
        raise InputError(
            f"{type(model).__name__} was given ids that no torch.nn.Embedding reads, so nothing "
            "has a gradient; give vectors as inputs_embeds"
        )
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise InputError(
            f"the objective should make one number of what the model gives, got {_named(value)}"
        )
    if not value.requires_grad:
        raise InputError(
            "the objective does not depend on the input by gradients: the model or the objective "
            "detaches, rounds or counts on the way"
        )


def _ids(arguments: dict[str, Any]) -> Tensor | None:
    """The ids that the model was given to read, of the encoder where there are two."""
    integers = [
        each
        for name, each in arguments.items()
        if isinstance(each, Tensor) and not each.is_floating_point() and "mask" not in name
    ]
    first: Tensor | None = arguments.get("input_ids", next(iter(integers), None))
    return first


def _of_tokens(slopes: list[Slope], ids: Tensor | None) -> list[Slope]:
    """The leaves that are the input's tokens: of the very ids, else of the same, else vectors."""
    if ids is None:
        vectors = [each for each in slopes if each[0].ids is None and each[0].vectors.dim() == 3]
        return vectors[:1]
    read = [each for each in slopes if each[0].ids is not None]
    own = [each for each in read if each[0].ids.data_ptr() == ids.data_ptr()]  # type: ignore[union-attr]
    alike = [each for each in read if torch.equal(each[0].ids.flatten(), ids.flatten())]  # type: ignore[union-attr]
    return own or alike[:1]


def _product(leaf: Leaf, slope: Tensor | None) -> Float[Tensor, " token"]:
    vectors = leaf.vectors.detach().flatten(0, -2)
    if slope is None:
        return vectors.new_zeros(len(vectors))
    return (vectors * slope.flatten(0, -2)).sum(dim=-1)


def _named(found: Any) -> str:
    if isinstance(found, Tensor):
        return f"a tensor of shape {tuple(found.shape)}"
    return f"{type(found).__name__}"
