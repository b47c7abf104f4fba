"""What a caller of `watch` wants: which sites, which numbers, what to keep, what to change."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from torch import Tensor

from regard.errors import InputError
from regard.kernels.observe import ObserveOptions
from regard.tracing.recording.editor import Editor
from regard.tracing.recording.site_choice import SiteChoice

WeightsForm = Literal["summary", "windows", "dense"]


@dataclass(frozen=True)
class Keep:
    """What is kept of each map.

    `weights` is "summary" (statistics and atlas only), "windows" (queries and keys too, from which
    any weight is computed again) or "dense" (the weights themselves). `half` holds queries and keys
    of more than 16 bits as bfloat16: half the memory, and weights that are off by about 1% of
    their size for scores around 10, in proportion for others; statistics and atlas stay exact.
    `values` keeps the values that the weights were multiplied by. `gradients` keeps the gradient of
    a loss by each head's context, if `backward()` runs inside the block. `outputs` keeps each
    head's part of W_O, the matrix that the contexts go straight into.

    >>> from regard.tracing import Keep
    >>> Keep(half=True)
    Keep(weights='windows', half=True, values=False, gradients=False, outputs=False)
    """

    weights: WeightsForm = "windows"
    half: bool = False
    values: bool = False
    gradients: bool = False
    outputs: bool = False

    def __post_init__(self) -> None:
        if self.weights not in get_args(WeightsForm):
            raise InputError(
                f"watch expected keep 'summary', 'windows' or 'dense', got {self.weights!r}"
            )

    @classmethod
    def of(cls, keep: "WeightsForm | Keep") -> "Keep":
        """The `Keep` of a caller who wrote one, or only its form of weights."""
        return keep if isinstance(keep, cls) else cls(keep)  # type: ignore[arg-type]

    def round(self, side: Tensor) -> Tensor:
        """Queries or keys in the precision in which they are kept."""
        return side.bfloat16() if self.half and side.itemsize > 2 else side


@dataclass(frozen=True, eq=False)
class WatchOptions:
    """Everything a caller of `watch` chose.

    `observe` says which statistics the kernels compute, `sites` which calls are recorded, `keep`
    what is stored of them, `editor` what is changed. `beside` lets the model's own operations run
    and observes beside them, so that outputs are the same bit for bit.
    """

    observe: ObserveOptions
    sites: SiteChoice = field(default_factory=lambda: SiteChoice.of(None))
    keep: Keep = field(default_factory=Keep)
    editor: Editor = field(default_factory=lambda: Editor(None))
    beside: bool = False

    @cached_property
    def without_context(self) -> ObserveOptions:
        """What the kernels compute of a call that the model's own function runs."""
        return replace(self.observe, context=False)
