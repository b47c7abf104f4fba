"""What of a model's output is judged: the probability of what it said by itself, or a likeness."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.errors import InputError, ShapeError
from regard.tracing.inputs.example import Prepared

Objective = Callable[[Any], Tensor]  # from what a model gives to one number of each example
Places = Int[Tensor, "variant token"]  # the row of each token in the output, -1 where it is erased
Values = Float[Tensor, " variant"]


@dataclass(frozen=True, eq=False)
class Said:
    """The probability of ids in rows of the output: the geometric mean over the rows.

    Rows are numbers of tokens, or where `fixed`, of rows as they are, -1 being the last. With
    `left`, rows of tokens that are erased do not count. Classes have one row.
    """

    name: str
    rows: tuple[int, ...]
    ids: Int[Tensor, " row"]
    fixed: bool = True
    left: bool = False

    def __call__(self, output: Any) -> Values:
        """The probability in each example."""
        return self._mean(self.logits(output), None)

    def of(self, output: Any, places: Places) -> Values:
        """The probability where some tokens were erased."""
        if self.fixed:
            return self(output)
        logits = axis_of_rows(output)
        rows = places.to(logits.device)[:, list(self.rows)]
        index = rows.clamp_min(0)[:, :, None].expand(-1, -1, logits.shape[2])
        return self._mean(logits.gather(1, index), rows >= 0 if self.left else None)

    def logits(self, output: Any) -> Float[Tensor, "variant row vocab"]:
        """The logits of the rows that are judged."""
        return axis_of_rows(output)[:, list(self.rows)]

    def log_probabilities(self, logits: Tensor) -> Float[Tensor, "variant row"]:
        """Of the ids, in double precision."""
        index = self.ids.expand(len(logits), -1)[:, :, None]
        return logits.double().log_softmax(dim=-1).gather(2, index)[:, :, 0]

    def _mean(self, logits: Tensor, counted: Tensor | None) -> Values:
        found = self.log_probabilities(logits)
        if counted is None:
            return found.mean(dim=1).exp()
        return (found.where(counted, 0.0).sum(dim=1) / counted.sum(dim=1)).exp()


@dataclass(frozen=True, eq=False)
class Alike:
    """The cosine of the mean of the output's vectors with that of the whole input.

    Vectors of tokens that are erased are left out, where `rows` of the output are the tokens.
    """

    name: str
    whole: Float[Tensor, " dim"]
    rows: bool = True

    def __call__(self, output: Any) -> Values:
        """The likeness of each example."""
        return self._cosine(axis_of_rows(output).double().mean(dim=1))

    def of(self, output: Any, places: Places) -> Values:
        """The likeness where some tokens were erased."""
        if not self.rows:
            return self(output)
        vectors = axis_of_rows(output).double()
        places = places.to(vectors.device)
        index = places.clamp_min(0)[:, :, None].expand(-1, -1, vectors.shape[2])
        left = (places >= 0)[:, :, None]
        pooled = (vectors.gather(1, index) * left).sum(dim=1) / left.sum(dim=1).clamp_min(1)
        return self._cosine(pooled)

    def _cosine(self, pooled: Float[Tensor, "variant dim"]) -> Values:
        return F.cosine_similarity(pooled, self.whole[None], dim=1)


@dataclass(frozen=True, eq=False)
class Given:
    """An objective of the caller's own."""

    objective: Objective
    name: str = "given"

    def __call__(self, output: Any) -> Values:
        """Its number of each example."""
        found = self.objective(output)
        if not isinstance(found, Tensor) or found.dim() > 1:
            came = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ShapeError(
                f"expected the objective to give a number for each example of a batch, got {came}"
            )
        return found.double().reshape(-1)

    def of(self, output: Any, places: Places) -> Values:
        """The same: it is not told what was erased."""
        return self(output)


Judge = Said | Alike | Given
"""Makes one number of an output, the more the closer it is to what the whole input led to."""


def judge_of(
    model: nn.Module, example: Prepared, output: Any, *, causal: bool, masks: Sequence[int] = ()
) -> Said | Alike:
    """What the model said for the whole input, to be judged when something is changed.

    By its name: "written", all that a decoder wrote of a source; "class"; "next token" of a causal
    model; "masked tokens" where `masks` are; "tokens", those that a model of tokens says in each
    row; "likeness" of the vectors that a model without logits gives. All but the last are
    probabilities, the geometric mean where they are several.
    """
    found, named = main_tensor(output)
    if found.dim() == 2:
        return _class(output, found)
    count, said = found.shape[1], example.written
    is_logits = named or said is not None or found.shape[2] == vocabulary_of(model)
    if not is_logits:
        tokens = 0 if example.tokens is None else len(example.tokens)
        own = not example.decodes and count == tokens
        return Alike("likeness", found[0].double().mean(dim=0), own)
    if example.decodes:
        rows = tuple(range(count))
        return Said("written", rows, said) if said is not None else _said("written", output, rows)
    if causal:
        return _said("next token", output, (-1,))
    if masks:
        return _said("masked tokens", output, tuple(masks), fixed=False)
    return _said("tokens", output, _plain(example, count), fixed=False, left=True)


def main_tensor(output: Any) -> tuple[Tensor, bool]:
    """The logits or hidden states in what a model gives, and whether it calls them logits."""
    if isinstance(output, Mapping):
        for name in ("logits", "last_hidden_state"):
            if isinstance(output.get(name), Tensor):
                return output[name], name == "logits"
    parts = output.values() if isinstance(output, Mapping) else output
    several = [output] if isinstance(output, Tensor) else parts
    for each in several if isinstance(several, list | tuple) else list(several or ()):
        if isinstance(each, Tensor) and each.is_floating_point() and each.dim() in (2, 3):
            return each, False
    raise InputError(
        "expected the model to give logits or hidden states with the axes (batch class) or "
        f"(batch token dim), got {type(output).__name__}; give an objective that makes a number "
        "of it"
    )


def axis_of_rows(output: Any) -> Float[Tensor, "variant row dim"]:
    """The main tensor of an output, with one row where it has classes."""
    found, _ = main_tensor(output)
    return found[:, None] if found.dim() == 2 else found


def _class(output: Any, found: Tensor) -> Said:
    if found.shape[1] == 1:
        raise InputError(
            "the model gives one number, which has no probability; give an objective such as "
            "lambda output: output.logits[:, 0]"
        )
    return _said("class", output, (0,))


def _said(name: str, output: Any, rows: tuple[int, ...], **how: bool) -> Said:
    chosen = axis_of_rows(output)[0, list(rows)]
    return Said(name, rows, chosen.argmax(dim=-1), **how)


def _plain(example: Prepared, count: int) -> tuple[int, ...]:
    """The tokens that are not special, all if they all are."""
    special = example.tokens.special if example.tokens is not None else None
    plain = tuple(place for place in range(count) if special is None or not special[place])
    return plain or tuple(range(count))


def vocabulary_of(model: nn.Module) -> int:
    """How many tokens a model knows: as its config says, else the rows of its largest table."""
    config = getattr(model, "config", None)
    for name in ("target_vocab", "vocab_size", "vocab"):
        said = getattr(config, name, None)
        if isinstance(said, int):
            return said
    tables = [each for each in model.modules() if isinstance(each, nn.Embedding)]
    return max((each.num_embeddings for each in tables), default=0)
