"""Interventions: what a caller may put in the place of a call's weights or of its context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor, zeros

from regard.errors import InputError
from regard.kernels.observe import Scoring
from regard.kernels.observe.call import Queries, Values
from regard.tracing.recording.site_choice import SiteChoice

Weights = Float[Tensor, "batch head query key"]
Patterns = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One call of attention, as the model is about to make it.

    Attention written by hand has no query, key and scoring, and a value only where the layout of
    its product tells which axis is which. `sizes` are batch, heads, queries, keys.
    """

    site: str
    sizes: tuple[int, int, int, int]
    query: Queries | None
    key: Float[Tensor, "batch key_head key key_dim"] | None
    value: Values | None
    scoring: Scoring | None
    weigh: Callable[[], Weights]
    see: Callable[[], Bool[Tensor, "batch head query key"]]

    def weights(self) -> Weights:
        """The call's own weights, dense, computed when asked; gradients flow through them."""
        return self.weigh()

    def seen(self) -> Bool[Tensor, "batch head query key"]:
        """Which keys each query may see, by the mask of the call."""
        return self.see().expand(self.sizes)


@dataclass(frozen=True, eq=False)
class Edit:
    """What some heads (None: all) use in place of their own weights, or give as their context.

    One of the two: `weights` broadcast to (batch, head, query, key), `context` to
    (batch, head, query, value_dim), with as many heads as are named. Both are used as they are:
    rows need not sum to one, and there is no dropout.

    >>> import torch
    >>> from regard.tracing import Edit
    >>> Edit([3], weights=torch.zeros(1, 1, 1, 1)).heads
    [3]
    """

    heads: Sequence[int] | None = None
    weights: Float[Tensor, "..."] | None = None
    context: Float[Tensor, "..."] | None = None

    def __post_init__(self) -> None:
        if (self.weights is None) == (self.context is None):
            came = "neither" if self.weights is None else "both"
            raise InputError(
                f"Edit expected either weights or a context, got {came}; return None from the "
                "function to leave a call as it is"
            )


EditFunction = Callable[[AttentionCall], Edit | None]


@dataclass(frozen=True, eq=False)
class EditAtSites:
    """An edit of every call at some sites, and of no other."""

    sites: SiteChoice
    make: Callable[[AttentionCall], Edit]

    def __call__(self, call: AttentionCall) -> Edit | None:
        """The edit of a call at these sites."""
        return self.make(call) if self.sites.fits(call.site) else None


def knock_out(sites: Patterns, heads: Sequence[int] | None = None) -> EditAtSites:
    """Heads that look nowhere: their weights are zero, and so is what they give.

    >>> import torch, regard
    >>> from regard.tracing import knock_out
    >>> attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> x = torch.randn(1, 5, 8)
    >>> with regard.watch(attention, edit=knock_out("*", heads=[1])) as seen:
    ...     _ = attention(x, x, x, need_weights=False)
    >>> seen[0]["MultiheadAttention"].weights(1).sum()
    tensor(0.)
    """
    return EditAtSites(SiteChoice.of(sites), lambda call: Edit(heads, weights=zeros(1, 1, 1, 1)))


def uniform(sites: Patterns, heads: Sequence[int] | None = None) -> EditAtSites:
    """Heads that look at all keys alike that the mask lets them see."""
    return EditAtSites(SiteChoice.of(sites), partial(_uniform, heads))


def patch(
    sites: Patterns,
    heads: Sequence[int] | None = None,
    *,
    weights: Float[Tensor, "..."] | None = None,
    context: Float[Tensor, "..."] | None = None,
) -> EditAtSites:
    """Heads that use given weights, or give a given context, as from another run."""
    edit = Edit(heads, weights, context)
    return EditAtSites(SiteChoice.of(sites), lambda call: edit)


def _uniform(heads: Sequence[int] | None, call: AttentionCall) -> Edit:
    seen = call.seen() if heads is None else call.seen()[:, check_heads(call, heads)]
    return Edit(heads, weights=seen / seen.sum(-1, keepdim=True).clamp_min(1))


def check_heads(call: AttentionCall, heads: Sequence[int] | None) -> list[int]:
    """The heads that an edit names, all if it names none; an InputError for one that is not there.

    The numbers are those of the query heads, each at most once.
    """
    count = call.sizes[1]
    found = list(range(count) if heads is None else heads)
    if not found or len({*found}) < len(found) or not all(0 <= head < count for head in found):
        raise InputError(
            f"expected an edit of some of the heads 0 to {count - 1} of {call.site!r}, each once, "
            f"got {found}"
        )
    return found
