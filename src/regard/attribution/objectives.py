"""The number of a model's output that is explained: a probability, a similarity, or your own.

Without an objective of the caller, `default_objective` takes what the model itself predicts for the
whole input. A decoder that continues "I love" with "you" at 31% has the objective "next token" with
the value 0.31; a classifier the objective "class"; an encoder without a head "similarity".

The classes also know what to read after tokens were erased, when the rows of the output may have
moved: `after_erasure(output, token_rows)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.arguments import check_first_argument
from regard.errors import InputError, ShapeError
from regard.tracing.inputs.example import PreparedExample

# Makes one number for each example of a batch from what the model returned.
Objective = Callable[[Any], Tensor]
TokenRows = Int[Tensor, "variant token"]  # each token's row in the output, -1 if it was erased
Values = Float[Tensor, " variant"]


@dataclass(frozen=True, eq=False)
class TokenProbability:
    """The probability of certain ids in certain rows of the output, their geometric mean.

    `rows` are the numbers of input tokens, or, with `fixed_rows`, rows of the output as they stand,
    -1 being the last. With `skip_erased`, rows of erased tokens do not count. Classes have one row.
    """

    name: str
    rows: tuple[int, ...]
    ids: Int[Tensor, " row"]
    fixed_rows: bool = True
    skip_erased: bool = False

    def __call__(self, output: Any) -> Values:
        """The probability in each example."""
        return self._geometric_mean(self.logits(output), None)

    def after_erasure(self, output: Any, token_rows: TokenRows) -> Values:
        """The probability where some tokens were erased."""
        if self.fixed_rows:
            return self(output)
        logits = output_rows(output)
        rows = token_rows.to(logits.device)[:, list(self.rows)]
        index = rows.clamp_min(0)[:, :, None].expand(-1, -1, logits.shape[2])
        return self._geometric_mean(
            logits.gather(1, index), rows >= 0 if self.skip_erased else None
        )

    def logits(self, output: Any) -> Float[Tensor, "variant row vocab"]:
        """The logits of the rows whose probability is taken."""
        return output_rows(output)[:, list(self.rows)]

    def log_probabilities(self, logits: Tensor) -> Float[Tensor, "variant row"]:
        """The log-probabilities of the ids, in double precision."""
        index = self.ids.expand(len(logits), -1)[:, :, None]
        return logits.double().log_softmax(dim=-1).gather(2, index)[:, :, 0]

    def _geometric_mean(self, logits: Tensor, counted: Tensor | None) -> Values:
        logs = self.log_probabilities(logits)
        if counted is None:
            return logs.mean(dim=1).exp()
        return (logs.where(counted, 0.0).sum(dim=1) / counted.sum(dim=1)).exp()


@dataclass(frozen=True, eq=False)
class OutputSimilarity:
    """The cosine between the mean of the output's vectors and that mean for the whole input.

    Vectors of erased tokens are left out where the rows of the output are the tokens.
    """

    name: str
    full_mean: Float[Tensor, " dim"]
    rows_are_tokens: bool = True

    def __call__(self, output: Any) -> Values:
        """The similarity of each example."""
        return self._cosine(output_rows(output).double().mean(dim=1))

    def after_erasure(self, output: Any, token_rows: TokenRows) -> Values:
        """The similarity where some tokens were erased."""
        if not self.rows_are_tokens:
            return self(output)
        vectors = output_rows(output).double()
        token_rows = token_rows.to(vectors.device)
        index = token_rows.clamp_min(0)[:, :, None].expand(-1, -1, vectors.shape[2])
        left = (token_rows >= 0)[:, :, None]
        pooled = (vectors.gather(1, index) * left).sum(dim=1) / left.sum(dim=1).clamp_min(1)
        return self._cosine(pooled)

    def _cosine(self, pooled: Float[Tensor, "variant dim"]) -> Values:
        return F.cosine_similarity(pooled, self.full_mean[None], dim=1)


@dataclass(frozen=True, eq=False)
class CustomObjective:
    """An objective that the caller passed, checked to give one number for each example."""

    objective: Objective
    name: str = "custom"

    def __call__(self, output: Any) -> Values:
        """The objective's number for each example."""
        values = self.objective(output)
        if not isinstance(values, Tensor) or values.dim() > 1:
            came = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise ShapeError(
                f"expected the objective to give a number for each example of a batch, got {came}"
            )
        return values.double().reshape(-1)

    def after_erasure(self, output: Any, token_rows: TokenRows) -> Values:
        """The same number: the caller's function does not know which tokens were erased."""
        return self(output)


NamedObjective = TokenProbability | OutputSimilarity | CustomObjective


def default_objective(
    model: nn.Module,
    example: PreparedExample,
    output: Any,
    *,
    causal: bool,
    masks: Sequence[int] = (),
) -> TokenProbability | OutputSimilarity:
    """What the model predicted for the whole input, to be compared with changed inputs.

    The names are "generated text" (all that a decoder wrote for a source), "class", "next token" of
    a causal model, "masked tokens" where `masks` has the positions of mask tokens, "tokens" (those
    that a masked language model predicts in each row), and "similarity" of the vectors of a model
    without logits. All but the last are probabilities, the geometric mean of several rows.
    """
    tensor, named = main_tensor(output)
    if tensor.dim() == 2:
        return _class_objective(output, tensor)
    count, written = tensor.shape[1], example.written
    is_logits = named or written is not None or tensor.shape[2] == vocabulary_size(model)
    if not is_logits:
        tokens = 0 if example.tokens is None else len(example.tokens)
        rows_are_tokens = not example.decodes and count == tokens
        return OutputSimilarity("similarity", tensor[0].double().mean(dim=0), rows_are_tokens)
    if example.decodes:
        name, rows = "generated text", tuple(range(count))
        if written is not None:
            return TokenProbability(name, rows, written)
        return _argmax_objective(name, output, rows)
    if causal:
        return _argmax_objective("next token", output, (-1,))
    if masks:
        return _argmax_objective("masked tokens", output, tuple(masks), fixed_rows=False)
    rows = _plain_tokens(example, count)
    return _argmax_objective("tokens", output, rows, fixed_rows=False, skip_erased=True)


@check_first_argument
def logit(choice: int | None = None, place: int = -1) -> Objective:
    """The objective that is one logit: of a class, or of the token after the one at `place`.

    Without a choice it is the largest logit.

    >>> import torch
    >>> from regard.attribution import logit
    >>> logit(1)(torch.tensor([[3.0, 5.0]])), logit(place=0)(torch.tensor([[[2.0, 7.0], [9, 9]]]))
    (tensor(5.), tensor(7.))
    """
    return partial(_take_logit, choice=choice, place=place)


def main_tensor(output: Any) -> tuple[Tensor, bool]:
    """The logits or hidden states in what a model returned, and whether it calls them logits."""
    if isinstance(output, Mapping):
        for name in ("logits", "last_hidden_state"):
            if isinstance(output.get(name), Tensor):
                return output[name], name == "logits"
    parts = output.values() if isinstance(output, Mapping) else output
    several = [output] if isinstance(output, Tensor) else parts
    for part in several if isinstance(several, list | tuple) else list(several or ()):
        if isinstance(part, Tensor) and part.is_floating_point() and part.dim() in (2, 3):
            return part, False
    raise InputError(
        "expected the model to give logits or hidden states with the axes (batch class) or "
        f"(batch token dim), got {type(output).__name__}; give an objective that makes a number "
        "of it"
    )


def output_rows(output: Any) -> Float[Tensor, "variant row dim"]:
    """The main tensor of an output; the logits of classes become a single row."""
    tensor, _ = main_tensor(output)
    return tensor[:, None] if tensor.dim() == 2 else tensor


def vocabulary_size(model: nn.Module) -> int:
    """How many tokens a model knows: as its config says, else the rows of its largest embedding."""
    config = getattr(model, "config", None)
    for name in ("target_vocab", "vocab_size", "vocab"):
        size = getattr(config, name, None)
        if isinstance(size, int):
            return size
    embeddings = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    return max((module.num_embeddings for module in embeddings), default=0)


def _take_logit(output: Any, choice: int | None, place: int) -> Tensor:
    logits = getattr(output, "logits", output)
    logits = logits[0] if isinstance(logits, tuple | list) and logits else logits
    if not isinstance(logits, Tensor) or logits.dim() not in (2, 3) or len(logits) != 1:
        shape = f"a tensor of shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else None
        raise InputError(
            "expected logits with the axes (1 class) or (1 token vocab), got "
            f"{shape or type(logits).__name__}; give an objective that makes one number of what "
            "the model gives"
        )
    rows = logits[0] if logits.dim() == 3 else logits
    if not -len(rows) <= place < len(rows):
        raise InputError(f"expected a place within the {len(rows)} tokens, got {place}")
    row = rows[place]
    if choice is not None and not -len(row) <= choice < len(row):
        raise InputError(f"expected a choice of {len(row)} logits, got {choice}")
    return row.max() if choice is None else row[choice]


def _class_objective(output: Any, logits: Tensor) -> TokenProbability:
    if logits.shape[1] == 1:
        raise InputError(
            "the model gives one number, which has no probability; give an objective such as "
            "lambda output: output.logits[:, 0]"
        )
    return _argmax_objective("class", output, (0,))


def _argmax_objective(
    name: str, output: Any, rows: tuple[int, ...], **options: bool
) -> TokenProbability:
    """The probability of the ids that the model itself found most likely in some rows."""
    logits = output_rows(output)[0, list(rows)]
    return TokenProbability(name, rows, logits.argmax(dim=-1), **options)


def _plain_tokens(example: PreparedExample, count: int) -> tuple[int, ...]:
    """The positions of tokens that are not special, or of all if every token is special."""
    special = example.tokens.special if example.tokens is not None else None
    plain = tuple(place for place in range(count) if special is None or not special[place])
    return plain or tuple(range(count))
