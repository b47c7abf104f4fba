"""What a caller wants kept of each call, and what is kept beside its weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import InputError
from regard.tracing.dataflow.output_projection import Outlet

Form = Literal["summary", "windows", "dense"]


@dataclass(frozen=True)
class Keep:
    """What is kept of each map.

    `weights` is "summary" (statistics and atlas only), "windows" (queries and keys too, from which
    any weight is computed again) or "dense". `half` holds queries and keys of more than 16 bits as
    bfloat16: half the memory, and weights that are off by about 1% of their size for scores
    around 10, in proportion for others; the numbers of rows and the atlas stay exact. `values`
    keeps what the weights mixed, `gradients` that of a loss by each head's context, if
    `backward()` runs inside the block. `outputs` keeps each head's part of the matrix that the
    contexts go straight into, W_O.

    >>> from regard.tracing import Keep
    >>> Keep(half=True)
    Keep(weights='windows', half=True, values=False, gradients=False, outputs=False)
    """

    weights: Form = "windows"
    half: bool = False
    values: bool = False
    gradients: bool = False
    outputs: bool = False

    def __post_init__(self) -> None:
        if self.weights not in get_args(Form):
            raise InputError(
                f"watch expected keep 'summary', 'windows' or 'dense', got {self.weights!r}"
            )

    @classmethod
    def of(cls, keep: "Form | Keep") -> "Keep":
        """What was asked for, in words or as it is."""
        return keep if isinstance(keep, cls) else cls(keep)  # type: ignore[arg-type]

    def rounded(self, side: Tensor) -> Tensor:
        """Queries or keys as they are kept."""
        return side.bfloat16() if self.half and side.itemsize > 2 else side


class Landing:
    """Where the gradient of a context lands if one comes; as in `.grad`, several are summed."""

    def __init__(self) -> None:
        self.gradient: Tensor | None = None

    def take(self, gradient: Tensor) -> None:
        """Add a gradient that has come."""
        came = gradient.detach()
        self.gradient = came.clone() if self.gradient is None else self.gradient + came


@dataclass(frozen=True, eq=False)
class Edited:
    """Weights that were used in place of the call's own, by some heads.

    In calls that continue one another their rows begin at `row`, and their columns at `column`.
    """

    heads: tuple[int, ...]
    weights: Float[Tensor, "batch head query key"]
    row: int = 0
    column: int = 0


@dataclass(frozen=True, eq=False)
class Kept:
    """What is kept of a call beside its weights, for all examples of the batch.

    `heads` are those that the map will have, None for all. Not `exact` are queries and keys that
    were rounded. The gradient is there when `backward()` has run, the output when the context has
    met a matrix.
    """

    heads: tuple[int, ...] | None = None
    exact: bool = True
    value: Float[Tensor, "batch key_head key value_dim"] | None = None
    landing: Landing | None = None
    edited: tuple[Edited, ...] = ()
    outlet: Outlet | None = None

    @property
    def output(self) -> Float[Tensor, "head value_dim model"] | None:
        """Each head's part of the matrix that the contexts went straight into, if they did."""
        return None if self.outlet is None else self.outlet.output

    @property
    def gradient(self) -> Float[Tensor, "batch head query value_dim"] | None:
        """The gradient of the context, if one came."""
        return None if self.landing is None else self.landing.gradient

    def trimmed(self, new: int) -> "Kept":
        """With the values of the last `new` keys only: a call that goes on brings no others."""
        if self.value is None:
            return self
        return replace(self, value=self.value[:, :, self.value.shape[2] - new :].clone())

    def cut(self, keys: int) -> "Kept":
        """With the values of the first `keys` keys only."""
        if self.value is None:
            return self
        return replace(self, value=self.value[:, :, :keys].clone())

    def taken(self, rows: Tensor) -> "Kept":
        """With these rows of the batch, in this order."""
        landing = Landing()
        if self.gradient is not None:
            landing.take(self.gradient[rows])
        return replace(
            self,
            value=None if self.value is None else self.value[rows],
            landing=landing,
            edited=tuple(replace(each, weights=each.weights[rows]) for each in self.edited),
        )


def joined(parts: Sequence[Kept], steps: Sequence[tuple[int, int]]) -> Kept:
    """What calls that continue one another keep together.

    Each step is how many queries a call brought, and how many keys there were in all at its end.
    """
    values = [each.value for each in parts if each.value is not None]
    edited, row, landing = list[Edited](), 0, Landing()
    for each, (queries, end) in zip(parts, steps, strict=True):
        edited += [replace(one, row=row, column=end - one.weights.shape[3]) for one in each.edited]
        row += queries
    gradient = _gradient([each.gradient for each in parts], [queries for queries, _ in steps])
    if gradient is not None:
        landing.take(gradient)
    return replace(
        parts[-1],
        value=torch.cat(values, dim=2) if len(values) == len(parts) else None,
        landing=landing,
        edited=tuple(edited),
    )


def _gradient(parts: Sequence[Tensor | None], lengths: Sequence[int]) -> Tensor | None:
    """The gradients one under the other; a call that none came to did not matter: zeros."""
    came = next((each for each in parts if each is not None), None)
    if came is None:
        return None
    batch, heads, _, dim = came.shape
    rows = [
        came.new_zeros(batch, heads, length, dim) if each is None else each
        for each, length in zip(parts, lengths, strict=True)
    ]
    return torch.cat(rows, dim=2)
