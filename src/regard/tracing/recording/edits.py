"""Edits: what a caller may put in place of the weights or the context of an attention call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor, zeros

from regard.arguments import check_first_argument
from regard.errors import InputError
from regard.kernels.observe import Scoring
from regard.kernels.observe.call import Queries, Values
from regard.tracing.recording.site_choice import SiteChoice

Weights = Float[Tensor, "batch head query key"]
Patterns = str | Sequence[str]


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """One attention call that is about to run, as an edit function sees it.

    `sizes` are batch, heads, queries, keys. Hand-written attention has no query, key and scoring,
    and a value only if the layout of its product shows which axis is which.
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
        """The call's own weights, dense, computed on request; gradients flow through them."""
        return self.weigh()

    def seen(self) -> Bool[Tensor, "batch head query key"]:
        """Which keys each query may see, by the mask of the call."""
        return self.see().expand(self.sizes)


@dataclass(frozen=True, eq=False)
class Edit:
    """New weights, or a new context, for some heads (None: all).

    Exactly one of the two: `weights` broadcast to (batch, head, query, key), `context` to
    (batch, head, query, value_dim), with as many heads as are named. Both are used as they are:
    rows need not sum to one, and dropout is not applied.

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
            passed = "neither" if self.weights is None else "both"
            raise InputError(
                f"Edit expected either weights or a context, got {passed}; return None from the "
                "function to leave a call as it is"
            )


EditFunction = Callable[[AttentionCall], Edit | None]


@dataclass(frozen=True, eq=False)
class EditAtSites:
    """An edit function that edits the calls at some sites and leaves all others."""

    sites: SiteChoice
    make: Callable[[AttentionCall], Edit]

    def __call__(self, call: AttentionCall) -> Edit | None:
        """The edit of a call at these sites; None elsewhere."""
        return self.make(call) if self.sites.includes(call.site) else None


@check_first_argument
def knock_out(sites: Patterns, heads: Sequence[int] | None = None) -> EditAtSites:
    """An edit that sets the weights of heads to zero, so that their contexts are zero too.

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


@check_first_argument
def uniform(sites: Patterns, heads: Sequence[int] | None = None) -> EditAtSites:
    """An edit that spreads the weights of heads evenly over all keys that the mask shows."""
    return EditAtSites(SiteChoice.of(sites), partial(_uniform, heads))


def patch(
    sites: Patterns,
    heads: Sequence[int] | None = None,
    *,
    weights: Float[Tensor, "..."] | None = None,
    context: Float[Tensor, "..."] | None = None,
) -> EditAtSites:
    """An edit that sets the weights or the context of heads, as to those of another run."""
    edit = Edit(heads, weights, context)
    return EditAtSites(SiteChoice.of(sites), lambda call: edit)


def _uniform(heads: Sequence[int] | None, call: AttentionCall) -> Edit:
    visible = call.seen() if heads is None else call.seen()[:, check_heads(call, heads)]
    return Edit(heads, weights=visible / visible.sum(-1, keepdim=True).clamp_min(1))


def check_heads(call: AttentionCall, heads: Sequence[int] | None) -> list[int]:
    """The heads of an edit, all if it names none; an InputError if the call does not have one.

    Heads are query heads, each named at most once.
    """
    count = call.sizes[1]
    chosen = list(range(count) if heads is None else heads)
    repeated = len({*chosen}) < len(chosen)
    if not chosen or repeated or not all(0 <= head < count for head in chosen):
        raise InputError(
            f"expected an edit of some of the heads 0 to {count - 1} of {call.site!r}, each once, "
            f"got {chosen}"
        )
    return chosen
