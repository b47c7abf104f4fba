"""The tensors of one training batch, and the loss of a language model on them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.tokenizers import Tokenizer
from regard.training.batches import Batches, Example
from regard.training.losses import projected_cross_entropy

Collate = Callable[[list[Example]], "TensorBatch"]


@dataclass(frozen=True, eq=False)
class TensorBatch:
    """The model's inputs by name, and the labels, which are -100 where nothing is predicted.

    `tokens` is the number of labels that count.
    """

    inputs: Mapping[str, Int[Tensor, "batch length"]]
    labels: Int[Tensor, "batch target"]
    tokens: int

    @property
    def padding(self) -> float:
        """The share of the labels that is padding."""
        return 1 - self.tokens / self.labels.numel()

    def to(self, device: torch.device) -> "TensorBatch":
        """The same batch on another device."""
        inputs = {name: tensor.to(device) for name, tensor in self.inputs.items()}
        return replace(self, inputs=inputs, labels=self.labels.to(device))


def language_model_loss(model: Any, batch: TensorBatch, smoothing: float) -> Tensor:
    """The cross-entropy summed over the batch's labels, with smoothed labels.

    It goes through the model's features and output matrix, so that the logits of the whole batch
    are never held at once.
    """
    features, (weight, bias) = model.features(**batch.inputs), model.projection
    return projected_cross_entropy(features, weight, bias, batch.labels, smoothing)


def mean_token_loss(model: nn.Module, batches: Iterable[TensorBatch]) -> float:
    """The mean loss of a label over all batches, without smoothing: comparable between recipes."""
    device = next(model.parameters()).device
    total, tokens = 0.0, 0
    for batch in batches:
        total += language_model_loss(model, batch.to(device), 0.0).item()
        tokens += batch.tokens
    return total / tokens


def one_epoch(batches: Batches, collate: Collate) -> Iterator[TensorBatch]:
    """Every batch of a corpus once, as tensors."""
    for examples in batches:
        if batches.place.epoch:  # `Batches` has no end: this one already begins the next epoch
            return
        yield collate(examples)


def pad_rows(rows: Iterable[Iterable[int]], padding: int) -> Int[Tensor, "batch length"]:
    """Rows of ids as one tensor, the shorter ones padded on the right."""
    tensors = [torch.tensor(list(row), dtype=torch.long) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=padding)


def special_token_id(tokenizer: Tokenizer, role: str) -> int:
    """The id of a special token ("bos", "eos" or "pad"); an InputError if there is none."""
    token_id = getattr(tokenizer, f"{role}_token_id")
    if token_id is None:
        raise InputError(f"training needs a tokenizer with a {role} token; this one has none")
    return int(token_id)
