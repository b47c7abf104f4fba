"""Low-rank adapters: a model whose matrices are frozen and learn a difference of low rank.

`add_low_rank` replaces each linear layer of the upper layers of a Transformer by a LowRankLinear:

    encoder.layers.5.feed_forward.up.weight    (1536, 384)   frozen
    encoder.layers.5.feed_forward.up.down      (32, 384)     trained
    encoder.layers.5.feed_forward.up.up        (1536, 32)    trained

The two factors are applied one after another, so that the gradient of the large matrix is never
computed: a step takes two thirds of the time of ordinary training. `merge_low_rank` adds the
products to the matrices, after which the model is an ordinary Transformer again.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import InputError
from regard.models.transformer.model import Transformer

__all__ = ["LowRankLinear", "add_low_rank", "merge_low_rank"]


class LowRankLinear(nn.Linear):
    """W x + b + up (down x), where W is frozen (Hu et al. 2022, eq. 3, with alpha = rank).

    At first `up` is zero, so that the layer computes what the frozen one did.
    """

    def __init__(self, frozen: nn.Linear, rank: int) -> None:
        nn.Module.__init__(self)  # the parameters are those of the frozen layer
        self.in_features, self.out_features = frozen.in_features, frozen.out_features
        self.weight, self.bias = frozen.weight, frozen.bias
        self.down = nn.Parameter(self.weight.new_empty(rank, self.in_features))
        self.up = nn.Parameter(self.weight.new_zeros(self.out_features, rank))
        nn.init.uniform_(self.down, -(self.in_features**-0.5), self.in_features**-0.5)

    def forward(self, input: Float[Tensor, "*batch input"]) -> Float[Tensor, "*batch output"]:  # noqa: A002
        """The output of the frozen layer with the difference added."""
        frozen = F.linear(input, self.weight, self.bias)
        return frozen + F.linear(F.linear(input, self.down), self.up)

    def merged(self) -> nn.Linear:
        """An ordinary layer with the weight W + up @ down."""
        plain = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None)
        plain = plain.to(self.weight)
        with torch.no_grad():
            plain.weight.copy_(self.weight + self.up @ self.down)
            if self.bias is not None:
                plain.bias.copy_(self.bias)
        return plain


def add_low_rank(model: Any, rank: int, *, frozen: int = 0) -> None:
    """Freeze a Transformer but for its head; above `frozen` layers add differences of this rank.

    In the layers with differences biases and norms are trained too. Embeddings are not.
    """
    if not isinstance(model, Transformer):
        raise InputError(f"plan.rank is for a Transformer, got a {type(model).__name__}")
    for stack in (model.encoder, model.decoder):
        if stack is None:
            continue
        if not 0 <= frozen < len(stack.layers):
            raise InputError(
                f"plan.frozen expected fewer layers than the {len(stack.layers)} of the model, "
                f"got {frozen}"
            )
        stack.requires_grad_(False)
        for layer in list(stack.layers)[frozen:]:
            for parameter in layer.parameters():
                parameter.requires_grad_(parameter.dim() == 1)
            _replace_linear_layers(layer, lambda linear: LowRankLinear(linear, rank))


def merge_low_rank(model: nn.Module) -> None:
    """Add each difference to its matrix; the model is an ordinary one again."""
    _replace_linear_layers(
        model, lambda linear: linear.merged() if isinstance(linear, LowRankLinear) else linear
    )


def _replace_linear_layers(module: nn.Module, make: Any) -> None:
    """Replace every linear layer in a module by what `make` returns for it."""
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, make(child))
        else:
            _replace_linear_layers(child, make)
