"""Tokens taken from what a model reads, in many variants of one example at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attribution.clean_run import Subject, only, path_of, runs, units_of
from regard.attribution.objectives import Said
from regard.errors import InputError, UnknownNameError
from regard.tracing import AttentionCall, Edit
from regard.tracing.inputs.example import forward

By = Literal["mask-token", "attention", "delete"]
Gone = Bool[Tensor, "variant token"]


@dataclass(frozen=True)
class Erasing:
    """How tokens are erased, and which of them belong together.

    `by` "mask-token" puts another id in their place: the tokenizer's mask, unknown or padding
    token, or `fill`; vectors become `fill`, or zeros. "attention" takes the weight that they have
    as keys and shares it out among the others, at every site that looks at them: no position
    moves, and what a recurrent network carries past attention stays. "delete" leaves them out,
    and those behind move up. None is "mask-token" for a tokenizer with a token for just that,
    else "attention" where tokens attend to one another, else "delete".

    The pieces of words go together, unless not `words`; special tokens are never erased, unless
    `special`. What is masked to be told stays, and by "attention" also the token after which the
    next one is told: it is a query, and not erased as a key.
    """

    by: By | None = None
    words: bool = True
    special: bool = False
    fill: float | None = None

    def __post_init__(self) -> None:
        if self.by is not None and self.by not in get_args(By):
            raise UnknownNameError("way to erase", str(self.by), get_args(By))


class Eraser:
    """Judges an example without some of its units; what was judged once is remembered."""

    def __init__(self, subject: Subject, how: Erasing = Erasing()) -> None:  # noqa: B008 frozen
        self.subject, self.how = subject, how
        self.by: By = how.by or _chosen(subject)
        self.units = _erasable(subject, how, self.by)
        self._known: dict[frozenset[int], float] = {frozenset(): subject.whole}

    @property
    def texts(self) -> tuple[str, ...]:
        """What each unit is called."""
        texts = self.subject.tokens.texts
        return tuple("".join(texts[place] for place in unit) for unit in self.units)

    def values(self, erased: Iterable[Iterable[int]]) -> Float[Tensor, " variant"]:
        """What is judged, for each set of units that are erased."""
        wanted = [frozenset(each) for each in erased]
        new = [each for each in dict.fromkeys(wanted) if each not in self._known]
        for some in self._batches(new):
            found = self._run(some).tolist()
            self._known |= dict(zip(some, found, strict=True))
        return torch.tensor([self._known[each] for each in wanted], dtype=torch.float64)

    def summed(self, scores: Float[Tensor, " token"]) -> Float[Tensor, " unit"]:
        """The scores of tokens as those of units, the sum over their pieces."""
        wide = scores.detach().cpu().double()
        return torch.stack([wide[unit].sum() for unit in self.units])

    def _batches(self, variants: Sequence[frozenset[int]]) -> list[Sequence[frozenset[int]]]:
        subject = self.subject
        together = subject.together(subject.seen if self.by == "attention" else ())
        if self.by != "delete":
            return list(runs(variants, together))
        sizes = [sum(len(self.units[number]) for number in each) for each in variants]
        groups = [
            [each for each, size in zip(variants, sizes, strict=True) if size == one]
            for one in sorted({*sizes})
        ]
        return [some for group in groups for some in runs(group, together)]

    def _run(self, erased: Sequence[frozenset[int]]) -> Float[Tensor, " variant"]:
        gone = self._gone(erased)
        subject, arguments = self.subject, repeated(self.subject.example.arguments, len(erased))
        if self.by == "attention":
            blind = Blind.of(subject, gone)
            output = forward(subject.model, arguments, edit=blind, sites=blind.first)
        elif self.by == "delete":
            output = forward(subject.model, self._shortened(arguments, gone))
        else:
            output = forward(subject.model, arguments | self._filled(arguments, gone))
        return subject.judge.of(output, _places(gone, moved=self.by == "delete"))

    def _gone(self, erased: Sequence[frozenset[int]]) -> Gone:
        gone = torch.zeros(len(erased), len(self.subject.tokens), dtype=torch.bool)
        for row, numbers in zip(gone, erased, strict=True):
            row[[place for number in numbers for place in self.units[number]]] = True
        return gone

    def _filled(self, arguments: Mapping[str, Any], gone: Gone) -> dict[str, Tensor]:
        name = self.subject.example.held
        assert name is not None
        given: Tensor = arguments[name]
        mask = gone.to(given.device)
        if given.is_floating_point():
            return {name: given.masked_fill(mask[:, :, None], self.how.fill or 0.0)}
        return {name: given.masked_fill(mask, self._filling())}

    def _filling(self) -> int:
        if self.how.fill is not None:
            return int(self.how.fill)
        for name in ("mask_token_id", "unk_token_id", "pad_token_id"):
            number = getattr(self.subject.tokenizer, name, None)
            if number is not None:
                return int(number)
        raise InputError(
            "erasing by a mask token needs a tokenizer with a mask, unknown or padding token; "
            "give the id to put there as fill=, or erase by 'attention' or 'delete'"
        )

    def _shortened(self, arguments: Mapping[str, Any], gone: Gone) -> dict[str, Any]:
        """The arguments with only those entries of each token that are left."""
        variants, count = gone.shape
        if bool(gone.all(dim=1).any()):
            raise InputError(
                "erasing by 'delete' would leave no token at all; erase by 'attention' or "
                "'mask-token'"
            )
        found = dict(arguments)
        for name, each in arguments.items():
            if name.startswith("decoder_") or not isinstance(each, Tensor) or each.dim() < 2:
                continue
            if each.shape[:2] == (variants, count):
                kept = (~gone).to(each.device)
                found[name] = each[kept].view(variants, -1, *each.shape[2:])
        return found


@dataclass(frozen=True, eq=False)
class Blind:
    """An edit: no query of a variant sees the tokens that are gone in it."""

    gone: Gone
    columns: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, subject: Subject, gone: Gone) -> "Blind":
        """Blind at all sites that look at the example's tokens."""
        if not subject.seen:
            raise InputError(
                f"{type(subject.model).__name__} was not seen to attend to its tokens; erase by "
                "'mask-token' or 'delete'"
            )
        return cls(gone, {path_of(each.site): each.columns.places for each in subject.seen})

    @property
    def first(self) -> str:
        """The site that runs first; none needs more than one site's statistics."""
        return only(next(iter(self.columns)))

    def __call__(self, call: AttentionCall) -> Edit | None:
        """The call's weights without the tokens, where it looks at them."""
        places = self.columns.get(call.site)
        if places is None:
            return None
        variants, batch = len(self.gone), call.sizes[0]
        if call.sizes[3] != len(places) or batch % variants:
            raise InputError(
                f"{call.site!r} looks at {call.sizes[3]} keys of {batch} examples, and not at the "
                f"{len(places)} tokens of {variants}; erase by 'mask-token' or 'delete'"
            )
        gone = self.gone[:, list(places)].repeat_interleave(batch // variants, dim=0)
        sink = call.scoring is not None and call.scoring.sink is not None
        return Edit(weights=unseen(call.weights(), gone[:, None, None], sink=sink))


def unseen(
    weights: Float[Tensor, "batch head query key"],
    gone: Bool[Tensor, "batch 1 1 key"],
    *,
    sink: bool = False,
) -> Float[Tensor, "batch head query key"]:
    """Weights as if a mask hid some keys: what they had goes to the others in proportion.

    A row keeps its sum; with a sink, what the sink has grows too. A row with no other key is zero.
    """
    left = weights.masked_fill(gone.to(weights.device), 0)
    kept, total = (each.sum(dim=-1, keepdim=True) for each in (left, weights))
    if sink:
        return left / (kept + (1 - total).clamp_min(0)).clamp_min(torch.finfo(left.dtype).tiny)
    return torch.where(kept > 0, left * (total / kept), 0)


def repeated(arguments: Mapping[str, Any], times: int) -> dict[str, Any]:
    """The arguments of a batch of so many copies of one example."""
    return {
        name: each.repeat(times, *[1] * (each.dim() - 1))
        if isinstance(each, Tensor) and each.dim() and each.shape[0] == 1
        else each
        for name, each in arguments.items()
    }


def _chosen(subject: Subject) -> By:
    if getattr(subject.tokenizer, "mask_token_id", None) is not None:
        return "mask-token"
    among = any(each.rows.stream == each.columns.stream for each in subject.seen)
    return "attention" if among else "delete"


def _erasable(subject: Subject, how: Erasing, by: By) -> list[list[int]]:
    """The units of the example, but for those whose rows are needed."""
    judge, needed = subject.judge, set[int]()
    if isinstance(judge, Said) and judge.name == "masked tokens":
        needed = {*judge.rows}
    elif judge.name == "next token" and by == "attention":
        needed = {len(subject.tokens) - 1}
    found = units_of(subject.tokens, words=how.words, special=how.special)
    left = [unit for unit in found if not needed & {*unit}]
    if not left:
        raise InputError(
            f"expected a text with more than what is needed to tell the {judge.name}, got "
            f"{', '.join(subject.tokens.texts)}"
        )
    return left


def _places(gone: Gone, *, moved: bool) -> Int[Tensor, "variant token"]:
    """The row of each token in the output, -1 for those that are gone."""
    ahead = (~gone).cumsum(dim=1) - 1 if moved else torch.arange(gone.shape[1]).expand_as(gone)
    return ahead.masked_fill(gone, -1)
